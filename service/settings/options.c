/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The command line of xschedd
 */

#include <config.h>

#include <getopt.h>
#include <stdio.h>

#include "common/client-socket.h"
#include "options.h"

static int show_help(void) {
        printf("%s [OPTIONS...]\n"
               "\n"
               "The GPU scheduling service.\n"
               "\n"
               "  -h --help              Show this help\n"
               "     --version           Show the version\n"
               "     --config=FILE       Read FILE instead of the installed configuration\n"
               "     --classes-dir=DIR   Read classes from DIR only\n"
               "     --system            Serve on the system bus (the default)\n"
               "     --session           Serve on the session bus of the user\n"
               "     --bus-address=ADDR  Serve on the bus at ADDR\n"
               "     --socket=PATH       Let programs register on a socket at PATH, too (on the\n"
               "                         system bus: " CLIENT_SOCKET ")\n"
               "     --thaw              Thaw units that an earlier service left frozen, and exit\n"
               "     --log-level=LEVEL   Log messages up to LEVEL (emerg, alert, crit, err,\n"
               "                         warning, notice, info, debug)\n"
               "     --log-target=TARGET Log to TARGET (auto, journal, console)\n"
               "\n"
               "See the xschedd(8) man page for details.\n",
                        program_invocation_short_name);
        return 0;
}

static int show_version(void) {
        printf("xschedd %s\n", XSCHED_VERSION);
        return 0;
}

static int complain(const char *option, const char *value, const char *why) {
        fprintf(stderr, "%s: %s=%s: %s\n", program_invocation_short_name, option, value, why);
        return -EINVAL;
}

int options_parse(int argc, char *argv[], Options *ret) {
        enum {
                OPTION_VERSION = 0x100,
                OPTION_CONFIG,
                OPTION_CLASSES_DIR,
                OPTION_SYSTEM,
                OPTION_SESSION,
                OPTION_BUS_ADDRESS,
                OPTION_SOCKET,
                OPTION_THAW,
                OPTION_LOG_LEVEL,
                OPTION_LOG_TARGET,
        };
        static const struct option table[] = {
                        {"help", no_argument, NULL, 'h'},
                        {"version", no_argument, NULL, OPTION_VERSION},
                        {"config", required_argument, NULL, OPTION_CONFIG},
                        {"classes-dir", required_argument, NULL, OPTION_CLASSES_DIR},
                        {"system", no_argument, NULL, OPTION_SYSTEM},
                        {"session", no_argument, NULL, OPTION_SESSION},
                        {"bus-address", required_argument, NULL, OPTION_BUS_ADDRESS},
                        {"socket", required_argument, NULL, OPTION_SOCKET},
                        {"thaw", no_argument, NULL, OPTION_THAW},
                        {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
                        {"log-target", required_argument, NULL, OPTION_LOG_TARGET},
                        {},
        };
        Options o = {.log_level = -1, .log_target = -1, .classes_dir = getenv("XSCHED_CLASSES_DIR")};

        /* getopt_long() keeps its place in a global: a second parse in one process (a test) starts anew. */
        optind = 0;
        for (int c; (c = getopt_long(argc, argv, "h", table, NULL)) >= 0;)
                switch (c) {
                case 'h':
                        return show_help();
                case OPTION_VERSION:
                        return show_version();
                case OPTION_CONFIG:
                        o.config_file = optarg;
                        break;
                case OPTION_CLASSES_DIR:
                        o.classes_dir = optarg;
                        break;
                case OPTION_SYSTEM:
                        o.bus = BUS_SYSTEM;
                        break;
                case OPTION_SESSION:
                        o.bus = BUS_SESSION;
                        break;
                case OPTION_BUS_ADDRESS:
                        o.bus = BUS_ADDRESS;
                        o.bus_address = optarg;
                        break;
                case OPTION_SOCKET:
                        o.socket = optarg;
                        break;
                case OPTION_THAW:
                        o.thaw = true;
                        break;
                case OPTION_LOG_LEVEL:
                        o.log_level = log_level_from_string(optarg);
                        if (o.log_level < 0)
                                return complain("--log-level", optarg, "unknown log level");
                        break;
                case OPTION_LOG_TARGET:
                        o.log_target = log_target_from_string(optarg);
                        if (o.log_target < 0)
                                return complain("--log-target", optarg, "unknown log target");
                        break;
                default:
                        return -EINVAL; /* getopt_long() has printed why */
                }
        if (!o.socket && o.bus == BUS_SYSTEM)
                o.socket = CLIENT_SOCKET;
        if (isempty(o.socket))
                o.socket = NULL;
        if (optind < argc) {
                fprintf(stderr, "%s: takes no arguments: '%s'\n", program_invocation_short_name, argv[optind]);
                return -EINVAL;
        }
        *ret = o;
        return 1;
}
