// Is busy under @pyroscope/nodejs and sends its wall and CPU time: `ADDRESS TOKEN`.
const Pyroscope = require("@pyroscope/nodejs");

const [address, token] = process.argv.slice(2);
Pyroscope.init({
  appName: "shop.node",
  serverAddress: address,
  basicAuthUser: "shop",
  basicAuthPassword: token,
  flushIntervalMs: 1000,
  tags: { version: "7" },
  wall: { collectCpuTime: true, samplingDurationMs: 1000 },
});
Pyroscope.start();

function fib(n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

async function main() {
  const end = Date.now() + 4000;
  while (Date.now() < end) {
    fib(25);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Pyroscope.stop();
}

main();
