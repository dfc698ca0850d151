/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * cdi: describes xsched to container engines, by the Container Device Interface
 *
 * One device for each class. A container that names it gets the libraries of the shim, the directory of the
 * service's socket, and two calls of xsched-oci-hook; nothing of the environment, since an engine puts that in the
 * place of what the user has given. JSON is YAML, too.
 */

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/client-socket.h"
#include "common/conf-files.h"
#include "common/json-add.h"
#include "common/whole-file.h"
#include "config.h"
#include "tools/shared/json.h"
#include "tools/shared/shim-env.h"
#include "tools/xschedctl/xschedctl.h"

#define CDI_FILE "/etc/cdi/xsched.yaml"
#define CDI_KIND "xsched.org/class"
#define CDI_VERSION                                                                                                    \
        "0.5.0" /* the first version in which a name may begin with a digit; podman 4.3 and containerd 1.7 read it */
#define IN_CONTAINER "/opt/xsched"
#define USUAL_CLASS  "default"
#define CLASS_SUFFIX ".class"
#define DEVICES_MAX  ((size_t) 1024)

typedef struct Spec {
        json_object *root, *devices;
        const char *devices_seen[DEVICES_MAX];
        size_t n_devices;
        char *hook;
        bool stand_in;
        bool failed; /* no memory */
} Spec;

/* --- JSON --- */

static json_object *add(Spec *s, json_object *to, const char *key, json_object *value) {
        if (json_add(to, key, value) >= 0)
                return value;
        s->failed = true;
        return NULL;
}

static void add_string(Spec *s, json_object *to, const char *key, const char *text) {
        (void) add(s, to, key, json_object_new_string(text));
}

static void add_mount(Spec *s, json_object *mounts, const char *from, const char *to) {
        static const char *const options[] = {"ro", "nosuid", "nodev", "bind"};
        json_object *mount = add(s, mounts, NULL, json_object_new_object());

        add_string(s, mount, "hostPath", from);
        add_string(s, mount, "containerPath", to);
        json_object *list = add(s, mount, "options", json_object_new_array());
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                add_string(s, list, NULL, options[i]);
}

static void add_hook(Spec *s, json_object *edits, const char *stage, const char *class) {
        json_object *hooks = add(s, edits, "hooks", json_object_new_array());
        json_object *hook = add(s, hooks, NULL, json_object_new_object());
        char text[128];

        add_string(s, hook, "hookName", stage);
        add_string(s, hook, "path", s->hook);
        json_object *args = add(s, hook, "args", json_object_new_array());
        add_string(s, args, NULL, "xsched-oci-hook");
        add_string(s, args, NULL, stage);
        if (!class)
                return;
        (void) snprintf(text, sizeof(text), "--class=%s", class);
        add_string(s, args, NULL, text);
}

/* --- what is in it --- */

/* CDI's rule for names: letters and digits, and in between "-", "_", "." and ":". */
static bool is_device_name(const char *name) {
        size_t n = strlen(name);

        return n > 0 && n < 64 && isalnum((unsigned char) name[0]) && isalnum((unsigned char) name[n - 1]) &&
                        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:")] ==
                        '\0';
}

/* Returns whether the class has a device. */
static bool add_device(Spec *s, const char *class) {
        char text[128];

        for (size_t i = 0; i < s->n_devices; i++)
                if (streq(s->devices_seen[i], class))
                        return true;
        if (!is_device_name(class) || s->n_devices >= DEVICES_MAX)
                return false;
        s->devices_seen[s->n_devices++] = class;
        json_object *device = add(s, s->devices, NULL, json_object_new_object());
        add_string(s, device, "name", class);
        json_object *edits = add(s, device, "containerEdits", json_object_new_object());
        if (s->stand_in) {
                /* An engine refuses a device that does nothing. */
                (void) snprintf(text, sizeof(text), "XSCHED_DEVICE=%s", class);
                add_string(s, add(s, edits, "env", json_object_new_array()), NULL, text);
        } else
                add_hook(s, edits, "createRuntime", streq(class, USUAL_CLASS) ? NULL : class);
        return true;
}

/* Reads the names of the classes' files, so that the service need not run. */
static int list_classes(ConfFiles *files) {
        static const char *const directories[] = {CONF_DIRECTORIES, NULL};
        const ConfContext c = {0};

        int r = conf_files_list(directories, "classes.d", CLASS_SUFFIX, &c, files);
        if (r == -ENOMEM)
                return r;
        for (size_t i = 0; i < files->n; i++)
                files->paths[i][strlen(files->paths[i]) - strlen(CLASS_SUFFIX)] = '\0';
        return 0;
}

static const char *class_of(const ConfFiles *files, size_t i) {
        return strrchr(files->paths[i], '/') + 1;
}

static bool is_class(const ConfFiles *files, const char *name) {
        for (size_t i = 0; i < files->n; i++)
                if (streq(class_of(files, i), name))
                        return true;
        return false;
}

/* An exit status. A class that is named need not exist here: hosts may get it after the file. Devices that stand in are
 * for hosts without xsched's classes. */
static int add_named(Spec *s, const ConfFiles *files, const char *class) {
        if (!add_device(s, class))
                return ctl_fail("class %s: no name that a device may have", class);
        if (!s->stand_in && !streq(class, USUAL_CLASS) && !is_class(files, class))
                (void) ctl_fail("class %s: there is no such class here, \"xschedctl list-classes\"; it has a device "
                                "all the same",
                                class);
        return 0;
}

static void add_all(Spec *s, const ConfFiles *files) {
        for (size_t i = 0; i < files->n; i++)
                if (!add_device(s, class_of(files, i)))
                        (void) ctl_fail("class %s: no name that a device may have, left out", class_of(files, i));
}

/* Mounts the library. Returns whether there is one. */
static bool add_library(Spec *s, json_object *mounts, int (*find)(char **ret)) {
        _cleanup_free_ char *path = NULL, *to = NULL;

        if (find(&path) < 0)
                return false;
        if (asprintf(&to, IN_CONTAINER "/%s", strrchr(path, '/') + 1) < 0)
                to = NULL;
        add_mount(s, mounts, path, strempty(to));
        s->failed |= !to;
        return true;
}

/* An exit status. */
static int add_shim(Spec *s) {
        json_object *edits = add(s, s->root, "containerEdits", json_object_new_object());
        json_object *mounts = add(s, edits, "mounts", json_object_new_array());
        _cleanup_free_ char *directory = strdup(CLIENT_SOCKET);

        if (!directory)
                return ctl_fail("out of memory");
        *strrchr(directory, '/') = '\0';
        if (!add_library(s, mounts, find_library))
                return ctl_fail("libxsched.so.0 is not installed");
        bool any = add_library(s, mounts, find_opencl_layer);
        any |= add_library(s, mounts, find_cuda_layer);
        any |= add_library(s, mounts, find_kfd_shim);
        (void) add_library(s, mounts, find_hsa_tool);
        if (!any)
                return ctl_fail("no library of the shim is installed");
        add_mount(s, mounts, directory, directory);
        add_hook(s, edits, "createContainer", NULL);
        return 0;
}

/* --- the file --- */

static int replace_file(const char *path, json_object *root) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        FILE *f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        int r = json_print(root, f, true);
        if (fclose(f) != 0 && r >= 0)
                r = -ENOMEM;
        return r < 0 ? r : whole_file_write(path, text, size, WHOLE_FILE_SYNC);
}

static int write_spec(const Spec *s, const char *output) {
        if (output && streq(output, "-"))
                return json_print(s->root, stdout, true) < 0 ? ctl_fail("out of memory") : 0;
        if (!output) {
                output = CDI_FILE;
                (void) mkdir("/etc/cdi", 0755);
        }
        int r = replace_file(output, s->root);
        return r < 0 ? ctl_fail("cannot write %s: %s", output, strerror(-r)) : 0;
}

static int fill_in(Spec *s, int argc, char *argv[], ConfFiles *files) {
        add_string(s, s->root, "cdiVersion", CDI_VERSION);
        add_string(s, s->root, "kind", CDI_KIND);
        s->devices = add(s, s->root, "devices", json_object_new_array());
        if (find_oci_hook(&s->hook) < 0 && !s->stand_in)
                return ctl_fail("xsched-oci-hook is not installed");
        if (list_classes(files) < 0)
                return ctl_fail("out of memory");
        (void) add_device(s, USUAL_CLASS);
        for (int i = 0; i < argc; i++) {
                int r = add_named(s, files, argv[i]);
                if (r != 0)
                        return r;
        }
        if (argc == 0)
                add_all(s, files);
        int r = s->stand_in ? 0 : add_shim(s);
        return r == 0 && s->failed ? ctl_fail("out of memory") : r;
}

int verb_cdi(Ctl *c, int argc, char *argv[]) {
        ConfFiles files = CONF_FILES_NULL;
        Spec s = {.stand_in = c->stand_in};

        if (!streq(argv[0], "generate"))
                return ctl_fail("cdi: there is only generate, not %s", argv[0]);
        s.root = json_object_new_object();
        s.failed = !s.root;
        int r = fill_in(&s, argc - 1, argv + 1, &files);
        if (r == 0)
                r = write_spec(&s, c->output);
        (void) json_object_put(s.root);
        conf_files_done(&files);
        free(s.hook);
        return r;
}
