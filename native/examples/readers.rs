//! What a reading costs: CPU microseconds of this thread per reading, by the own reader and by the py-spy crate.
//!
//!     cargo run --release --example readers -- PID [READINGS]
//!
//! Nothing is stopped: let the process wait, or stop it first.

use sidelight_native::cpython::cpython_reader::CpythonReader;
use sidelight_native::linux::os::clock_ns;
use sidelight_native::stacks::stack_interner::StackInterner;
use sidelight_native::stacks::stack_reader::StackReader;
use std::error::Error;

const MAX_DEPTH: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid: i32 = arguments.next().ok_or("usage: readers PID [READINGS]")?.parse()?;
    let readings: u32 = arguments.next().map_or(Ok(1000), |text| text.parse())?;

    let mut interner = StackInterner::new(1 << 20);
    let mut reader = CpythonReader::attach(pid, None, MAX_DEPTH).map_err(|failure| failure.message)?;
    let interpreters = reader.interpreters().map_err(|failure| failure.message)?;
    let mut read_all = |ran: bool| {
        for &interpreter in &interpreters {
            reader.gil(interpreter).map_err(|failure| failure.message)?;
            reader.read(interpreter, &mut |_| ran, &mut interner).map_err(|failure| failure.message)?;
        }
        Ok(())
    };
    println!("own {:.1}", cpu_us(readings, || read_all(true))?);
    println!("own, no thread has run {:.1}", cpu_us(readings, || read_all(false))?);

    let config = py_spy::Config {
        blocking: py_spy::config::LockingStrategy::NonBlocking,
        ..py_spy::Config::default()
    };
    let mut spy = py_spy::PythonSpy::new(pid, &config)?;
    let crates = cpu_us(readings, || spy.get_stack_traces().map(drop).map_err(|error| error.to_string()))?;
    println!("py-spy {crates:.1}");
    Ok(())
}

fn cpu_us(times: u32, mut read: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let now = || clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0) as f64;
    read()?;
    let began = now();
    for _ in 0..times {
        read()?;
    }
    Ok((now() - began) / f64::from(times) / 1000.0)
}
