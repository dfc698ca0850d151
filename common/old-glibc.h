/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Old glibc: has libraries that are loaded into other programs work with glibc 2.28 and newer
 *
 * The build machine has a newer glibc. glibc 2.34 moved threads and dlopen() into libc.so.6 and gave them a new symbol
 * version. If a library in LD_PRELOAD needed that version, no program of an older image would start. So these functions
 * are wanted by no version: the loader takes the first one, and the functions are the same as ever. Their first version
 * will not do: a linked library says where each version is to be, here in libc.so.6, and before 2.30 the loader ends a
 * program in which libc.so.6 does not have the function. This header is put in front of every source of those libraries
 * (old_glibc in meson.build), before any other, and includes none. A test checks the versions that the libraries need.
 *
 * Functions that are newer than 2.28 are not to be called there: the test names them. Nor, in what is preloaded, are
 * those that musl does not have: its loader ends a program that lacks one, so they are weak.
 */

/* The sanitizers' functions come before today's versions. */
#if !defined(__ASSEMBLER__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#        if defined(__x86_64__)
#                define OLD_GLIBC_FIRST "GLIBC_2.2.5"
#                define OLD_GLIBC_STAT  1 /* _STAT_VER */
#        elif defined(__aarch64__)
#                define OLD_GLIBC_FIRST "GLIBC_2.17"
#                define OLD_GLIBC_STAT  0
#        endif
#endif

#ifdef OLD_GLIBC_FIRST
/* Weak: where a library that has them is missing, as before 2.34 in a program without threads, programs start. */
#        define OLD_GLIBC_MOVED(name)    OLD_GLIBC(name, "")
#        define OLD_GLIBC(name, version) __asm__(".weak " name "\n.symver " name ", " name "@" version)

OLD_GLIBC_MOVED("dladdr");
#        ifndef OLD_GLIBC_OWN_DLCLOSE /* a file that interposes it cannot ask for a version of it */
OLD_GLIBC_MOVED("dlclose");
#        endif
OLD_GLIBC_MOVED("dladdr1");
OLD_GLIBC_MOVED("dlerror");
OLD_GLIBC_MOVED("dlopen");
OLD_GLIBC_MOVED("dlsym");
OLD_GLIBC_MOVED("dlvsym");
OLD_GLIBC_MOVED("pthread_attr_setstacksize");
OLD_GLIBC_MOVED("pthread_create");
OLD_GLIBC_MOVED("pthread_mutex_timedlock");
OLD_GLIBC_MOVED("pthread_mutex_trylock");
OLD_GLIBC_MOVED("pthread_once");
OLD_GLIBC_MOVED("pthread_setname_np");
OLD_GLIBC_MOVED("pthread_sigmask");
OLD_GLIBC_MOVED("sem_destroy");
OLD_GLIBC_MOVED("sem_init");
OLD_GLIBC_MOVED("sem_post");
OLD_GLIBC_MOVED("sem_wait");
#endif
