/* A hot loop in C. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>

static double thread_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static PyObject *burn(PyObject *module, PyObject *argument) {
    double seconds = PyFloat_AsDouble(argument);
    if (PyErr_Occurred()) return NULL;
    double until = thread_time() + seconds;
    unsigned long turns = 1;
    while (thread_time() < until) {
        /* Most of the time is to be spent here and not in asking the clock. */
        for (int turn = 0; turn < 20000; turn++) turns = turns * 1664525UL + turn;
    }
    return PyLong_FromUnsignedLong(turns);
}

static PyMethodDef methods[] = {{"burn", burn, METH_O, "Take so many seconds of CPU time."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "hot_c", NULL, -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_hot_c(void) { return PyModule_Create(&definition); }
