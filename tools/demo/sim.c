/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The simulated AMD GPU
 */

#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/demo/session.h"
#include "tools/demo/sim.h"

#define PLAYER "tests/kfdsim/xsched-demo-amd-sim"

static char player[4096];
static char directory[] = "/tmp/xsched-demo-XXXXXX";
static bool entered;

const char *sim_player(const char *device) {
        return sim_is_device(device) ? player : demo_self();
}

/* build/tools/demo/xsched-demo -> build/PLAYER */
static int find_player(void) {
        (void) snprintf(player, sizeof(player), "%s", demo_self());
        for (unsigned up = 0; up < 3; up++) {
                char *slash = strrchr(player, '/');
                if (slash)
                        *slash = '\0';
        }
        size_t n = strlen(player);
        (void) snprintf(player + n, sizeof(player) - n, "/" PLAYER);
        if (access(player, X_OK) < 0)
                return demo_error(-ENOENT,
                                "the simulated GPU is part of a build tree that found the HSA runtime (on Debian: "
                                "libhsa-runtime-dev); there is no %s",
                                player);
        return 0;
}

int sim_enter(void) {
        int r = find_player();
        if (r < 0)
                return r;
        if (!mkdtemp(directory))
                return demo_error(negative_errno(), "cannot make a directory: %s", strerror(errno));
        entered = true;
        (void) setenv("KFDSIM_DIR", directory, 1);
        (void) setenv("KFDSIM_GPUS", "gfx90a", 1);
        (void) unsetenv("KFDSIM_OPTS"); /* the defaults are what the report says */
        (void) unsetenv("KFDSIM_FAIL");
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) remove(path);
        return 0;
}

void sim_leave(void) {
        if (entered)
                (void) nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        entered = false;
}
