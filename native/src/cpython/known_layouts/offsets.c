/* Prints the offsets of a CPython 3.7 to 3.10 as its headers have them, in the order of `tests.rs`. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x03090000
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#elif PY_VERSION_HEX >= 0x03080000
#include "internal/pycore_pystate.h"
#else
#include "internal/pystate.h"
#endif
#if PY_VERSION_HEX >= 0x030A0000
#define LINES co_linetable
#else
#define LINES co_lnotab
#endif
#define SHOW(type, field) printf("%zu\n", offsetof(type, field))

int main(void)
{
    SHOW(_PyRuntimeState, interpreters.head);
    SHOW(_PyRuntimeState, gilstate.tstate_current);
    SHOW(_PyRuntimeState, gilstate.autoInterpreterState);
    SHOW(_PyRuntimeState, ceval.gil.switch_number);
    printf("%zu\n", 2 * (sizeof(pthread_mutex_t) - 40));
    SHOW(PyInterpreterState, next);
    SHOW(PyInterpreterState, tstate_head);
    SHOW(PyInterpreterState, modules);
    SHOW(PyInterpreterState, sysdict);
    SHOW(PyThreadState, next);
    SHOW(PyThreadState, interp);
    SHOW(PyThreadState, frame);
    SHOW(PyThreadState, thread_id);
    SHOW(PyThreadState, id);
    SHOW(PyFrameObject, f_back);
    SHOW(PyFrameObject, f_code);
    SHOW(PyFrameObject, f_lasti);
    SHOW(PyCodeObject, co_firstlineno);
    SHOW(PyCodeObject, co_code);
    SHOW(PyCodeObject, co_filename);
    SHOW(PyCodeObject, co_name);
    SHOW(PyCodeObject, LINES);
    printf("%zu\n", sizeof(PyASCIIObject));
    printf("%zu\n", sizeof(PyCompactUnicodeObject));
    SHOW(PyTypeObject, tp_name);
#if PY_VERSION_HEX >= 0x03090000
    SHOW(PyInterpreterState, runtime);
#endif
    return 0;
}
