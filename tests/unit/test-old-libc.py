#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that are loaded into other programs need no newer glibc than 2.28, and load beside musl, too.

test-old-libc.py MUSL-GCC LIBRARY...: if MUSL-GCC is "", nothing is preloaded into programs of musl."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

MUSL_GCC, LIBRARIES = sys.argv[1], sys.argv[2:]
NEWEST = (2, 28)
# The layers are preloaded. They open libxsched when they need it, and only beside glibc; a runtime opens the HSA tool.
PRELOADED = [p for p in LIBRARIES if not os.path.basename(p).startswith(("libxsched.so", "libxsched-hsa.so"))]

PROGRAM = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *main_of_thread(void *p) {
        return p;
}

int main(void) {
        size_t (*length)(const char *) = (size_t (*)(const char *)) dlsym(RTLD_DEFAULT, "strlen");
        int fd = open("/proc/self/stat", O_RDONLY), copy = dup(fd), n = 0;
        pthread_t thread;
        void *result;
        char buf[16];

        n += fd >= 0 && copy == fd + 1 && read(copy, buf, 16) == 16;
        n += close(fd) == 0 && close(copy) == 0 && close(copy) < 0;
        n += length && length("four") == 4;
        n += !dlsym(RTLD_DEFAULT, "nothing_of_this_name") && dlerror();
        n += pthread_create(&thread, NULL, main_of_thread, &n) == 0 && pthread_join(thread, &result) == 0 &&
             result == &n;
        printf("%d\n", n);
        return 0;
}
"""


def symbols(library, pattern):
    """Returns [(version, name)] of glibc's functions in the library's table, of lines that begin with the pattern."""
    table = subprocess.run(["objdump", "-T", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.findall(pattern + r".*\bGLIBC_([0-9.]+)\)? +(\S+)", table)
    return [(tuple(int(n) for n in version.split(".")), name) for version, name in found]


def wanted(library):
    """Returns [(version, name)] of the functions of glibc that the library needs."""
    return symbols(library, r"\*UND\*")


def moved():
    """Returns the names of functions that came to libc.so.6 after 2.28. They have a version of that time, too."""
    with open("/proc/self/maps", encoding="utf-8") as f:
        libc = re.search(r"/\S+/libc[.-]\S+", f.read())[0]
    return {name for version, name in symbols(libc, r"\.text") if version > NEWEST}


class Symbols(unittest.TestCase):
    def test_not_newer(self):
        for library in LIBRARIES:
            with self.subTest(library=os.path.basename(library)):
                found = wanted(library)
                self.assertIn("__errno_location", [name for _, name in found])
                self.assertEqual([f"{name}@{version}" for version, name in found if version > NEWEST], [])

    def test_not_by_version(self):
        """The loader of glibc 2.28 and 2.29 ends a program where a library wants a version of a function that moved to
        libc.so.6 later, and libdl or libpthread come after libc.so.6, or not at all."""
        names = moved()
        self.assertTrue({"dlopen", "pthread_create", "pthread_once", "sem_wait"} <= names)
        for library in LIBRARIES:
            with self.subTest(library=os.path.basename(library)):
                self.assertEqual([name for _, name in wanted(library) if name in names], [])


@unittest.skipUnless(MUSL_GCC, "no musl-gcc")
class Musl(unittest.TestCase):
    """musl's loader ends a program if a preloaded library needs a function that no library has."""

    def test_preloaded(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = f"{folder}/program.c", f"{folder}/program"
            with open(source, "w", encoding="utf-8") as f:
                f.write(PROGRAM)
            subprocess.run([MUSL_GCC, source, "-o", program], check=True)
            self.assertEqual(subprocess.check_output([program]), b"5\n")
            for library in [*PRELOADED, ":".join(PRELOADED)]:
                with self.subTest(library=library):
                    done = subprocess.run(
                        [program],
                        env={"LD_PRELOAD": library},
                        check=False,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                    )
                    self.assertEqual((done.returncode, done.stdout), (0, b"5\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
