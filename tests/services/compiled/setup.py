"""Compiles the two modules in place, for the interpreter that runs it."""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    name="services-compiled",
    ext_modules=[
        *cythonize([Extension("hot_cython", ["hot_cython.pyx"])], language_level=3),
        Extension("hot_c", ["hot_c.c"]),
    ],
)
