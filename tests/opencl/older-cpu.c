/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Preloaded into programs of an old release: its LLVM takes the processor for the oldest of its kind. A processor that
 * came after LLVM 11, as AMD's Zen 3 did, is "generic" there, and clang 11 refuses that name for x86-64, so that PoCL
 * 1.6 compiles no kernel. Needs no library, so that an older libc than the one it was built with takes it.
 */

#include <stddef.h>

/* llvm::StringRef, which is returned in two registers */
typedef struct StringRef {
        const char *data;
        size_t length;
} StringRef;

/* llvm::sys::getHostCPUName() */
StringRef _ZN4llvm3sys14getHostCPUNameEv(void);

StringRef _ZN4llvm3sys14getHostCPUNameEv(void) {
        static const char name[] = "x86-64";

        return (StringRef){name, sizeof(name) - 1};
}
