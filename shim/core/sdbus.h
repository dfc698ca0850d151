/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * libsystemd's bus, loaded when it is first needed
 *
 * A library that is loaded into every GPU process must not bring others into the application's symbol scope: sd-bus
 * comes by dlopen(RTLD_LOCAL) on the control thread, and what we use of it stands in one table. Only the headers are
 * needed to build. Where libsystemd is missing (a minimal container), the process runs unscheduled.
 */

#include <systemd/sd-bus.h>

#define SDBUS_FUNCTIONS(X)                                                                                  \
        X(sd_bus_new)                                                                                       \
        X(sd_bus_set_address)                                                                               \
        X(sd_bus_set_bus_client)                                                                            \
        X(sd_bus_start)                                                                                     \
        X(sd_bus_close)                                                                                     \
        X(sd_bus_unref)                                                                                     \
        X(sd_bus_get_fd)                                                                                    \
        X(sd_bus_get_events)                                                                                \
        X(sd_bus_get_timeout)                                                                               \
        X(sd_bus_process)                                                                                   \
        X(sd_bus_add_match_async)                                                                           \
        X(sd_bus_call)                                                                                      \
        X(sd_bus_path_encode)                                                                               \
        X(sd_bus_message_enter_container)                                                                   \
        X(sd_bus_message_read_array)                                                                        \
        X(sd_bus_message_read_basic)                                                                        \
        X(sd_bus_call_async)                                                                                \
        X(sd_bus_message_new_method_call)                                                                   \
        X(sd_bus_message_set_auto_start)                                                                    \
        X(sd_bus_message_append)                                                                            \
        X(sd_bus_message_open_container)                                                                    \
        X(sd_bus_message_close_container)                                                                   \
        X(sd_bus_message_read)                                                                              \
        X(sd_bus_message_get_error)                                                                         \
        X(sd_bus_message_unref)

typedef struct SdBus {
#define X(f) typeof(f) *f;
        SDBUS_FUNCTIONS(X)
#undef X
} SdBus;

/* Valid after sdbus_load() has succeeded. */
extern SdBus sdbus;

/* Returns 0, -ENOENT (no libsystemd here), -ELIBBAD (it lacks what we need). */
int sdbus_load(void);
