/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-oci-hook: a container runtime calls it before a container's program starts
 *
 * createRuntime, on the host: the cgroup of the container gets its class, by the name of its CDI device, what its
 * annotations ask for, and the names that Kubernetes has for it. As root these attributes raise; as a user, whose
 * cgroup it then is, they only lower. It does not ask whether xschedd runs.
 *
 * createContainer, in the container's mount namespace: the shim is preloaded, see preload-file.h.
 *
 * Whatever fails here, the container starts: the hook says so in the journal, and nothing on standard output or error,
 * ends in time and says that it succeeded.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

#include "cgroup/cgroup-attr.h"
#include "config.h"
#include "oci/annotations.h"
#include "oci/cgroup.h"
#include "oci/preload-file.h"

#define TIME_LIMIT 5U /* seconds */
#define RULES_FILE XSCHED_PKGCONFDIR "/containers.conf"
#define CLASS_MAX  ((size_t) 63)

_printf_(2, 3) static void report(int error, const char *format, ...) {
        char text[512];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        syslog(LOG_WARNING, "%s: %s, ignoring", text, strerror(-error));
}

static void on_alarm(int signal) {
        _exit(0);
}

static int read_all(int fd, char **ret, size_t *ret_size) {
        _cleanup_free_ char *text = malloc(OCI_STATE_MAX + 1);
        size_t n = 0;

        if (!text)
                return -ENOMEM;
        for (ssize_t k = 1; k != 0 && n <= OCI_STATE_MAX; n += (size_t) k) {
                k = read(fd, text + n, OCI_STATE_MAX + 1 - n);
                if (k < 0 && errno == EINTR)
                        k = 0;
                else if (k < 0)
                        return negative_errno();
        }
        if (n > OCI_STATE_MAX)
                return -EFBIG;
        *ret = TAKE_PTR(text);
        *ret_size = n;
        return 0;
}

/* --- createRuntime --- */

static void on_problem(const ConfProblem *p, void *userdata) {
        syslog(LOG_WARNING, "%s:%u: %s", p->file, p->line, p->message);
}

static void write_attribute(const char *key, const char *value, void *userdata) {
        const int *fd = userdata;

        int r = cgroup_attr_write(*fd, key, value);
        if (r < 0)
                report(r, "user.xsched.%s of the container's cgroup", key);
}

static int set_attributes(const OciState *s, const char *class) {
        AnnotationRules rules = {0};
        bool of_crio;

        _cleanup_close_ int fd = oci_cgroup_open(s, &of_crio);
        if (fd < 0)
                return fd;
        int r = annotation_rules_read(RULES_FILE, on_problem, NULL, &rules);
        if (r < 0)
                report(r, RULES_FILE);
        if (class)
                write_attribute("class", class, &fd);
        annotations_settings(s, &rules, write_attribute, &fd);
        annotations_labels(s, of_crio, &rules, write_attribute, &fd);
        return 0;
}

/* --- createContainer --- */

static int preload_shim(const OciState *s) {
        _cleanup_free_ char *root = NULL;

        int r = oci_state_root(s, &root);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? negative_errno() : preload_file_mount(fd);
}

static int run_stage(const char *stage, const char *class) {
        _cleanup_(oci_state_done)
        OciState state = OCI_STATE_NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_all(STDIN_FILENO, &text, &size);
        if (r >= 0)
                r = oci_state_parse(text, size, &state);
        if (r < 0)
                return r;
        if (streq(stage, "createRuntime"))
                return set_attributes(&state, class);
        return streq(stage, "createContainer") ? preload_shim(&state) : -EINVAL;
}

int main(int argc, char *argv[]) {
        const char *class = NULL;
        const char *stage = argc > 1 ? argv[1] : "no stage";

        (void) signal(SIGALRM, on_alarm);
        (void) alarm(TIME_LIMIT);
        openlog("xsched-oci-hook", LOG_PID, LOG_DAEMON);
        for (int i = 2; i < argc; i++) {
                const char *value = startswith(argv[i], "--class=");

                if (value && *value && strlen(value) <= CLASS_MAX)
                        class = value;
                else
                        syslog(LOG_WARNING, "%s: no argument of this version, ignoring", argv[i]);
        }
        int r = run_stage(stage, class);
        if (r < 0)
                report(r, "%s", stage);
        return 0;
}
