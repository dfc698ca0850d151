#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""This tree complies with rooms.conf, and tools/rooms finds violations in others."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["BUILD_DIR"])
TOOL = SOURCE / "tools/rooms"
sys.dont_write_bytecode = True  # it would be beside the tool, in the source tree

ROOMS = """
[low]
is = What is below
uses =

[high]
is = What is above
uses = low

[high/side]
is = A room in a room
uses = low

[tests]
is = The tests
uses = *

[way: How it goes]
high/high.c:high_call = (the start) It calls
low/low.h:low_inline = And that
"""

FILES = {
    "rooms.conf": ROOMS,
    "low/low.h": "int low_call(int n);\nint low_hook(void);\n\n"
    "static inline int low_inline(void) {\n        return 1;\n}\n",
    "low/low.c": '#include "low.h"\n\nint low_call(int n) {\n        return n;\n}\n',
    "high/high.h": "int high_call(void);\n",
    "high/high.c": '#include <stdio.h>\n\n#include "high.h"\n#include "low/low.h"\n\n'
    "int high_call(void) {\n        return low_call(low_inline());\n}\n\n"
    "int main(void) {\n        return high_call();\n}\n",
    "high/side/side.c": '#include "low/low.h"\n\nint side_call(void);\n'
    "int side_call(void) {\n        return low_call(2);\n}\n\nint main(void) {\n        return side_call();\n}\n",
    "high/side/side.h": "int side_call(void);\n",
    "tests/test.c": '#include "high/high.h"\n\nint main(void) {\n        return high_call();\n}\n',
    "HACKING.md": "# About\n\n<!-- made from rooms.conf by tools/rooms --write: begin -->\n"
    "<!-- made from rooms.conf by tools/rooms --write: end -->\n\nThe end.\n",
}


def load_tool():
    loader = importlib.machinery.SourceFileLoader("rooms", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("rooms", loader))
    loader.exec_module(module)
    return module


def rooms(*arguments):
    """Runs tools/rooms in this process, which is many times faster. Returns its exit status and the lines it prints."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            status = load_tool().main([str(a) for a in arguments])
        except SystemExit as e:
            print(e, file=said)
            status = 1
    return status, said.getvalue().splitlines()


class ThisTree(unittest.TestCase):
    def test_this_tree(self):
        done = subprocess.run(
            [TOOL, "--build", BUILD], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""))


class OtherTree(unittest.TestCase):
    """A small tree, without a fault and with one."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        for name, text in FILES.items():
            self.write(name, text)
        self.assertEqual(rooms("--source", self.top, "--write"), (0, []))

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def replace(self, name, old, new):
        text = (self.top / name).read_text(encoding="utf-8")
        self.assertIn(old, text)
        self.write(name, text.replace(old, new))

    def build(self):
        """Makes a build directory like meson's: objects, and compile_commands.json, which names their sources."""
        build = self.top / "build"
        (build / "meson-info").mkdir(parents=True, exist_ok=True)
        commands = []
        for source in sorted(self.top.glob("**/*.c")):
            name = source.relative_to(self.top)
            # An object belongs to the tests if it is below tests/, wherever its source is.
            output = f"{'tests/' if name.parts[0] == 'tests' else ''}{str(name).replace('/', '_')}.o"
            (build / output).parent.mkdir(exist_ok=True)
            compiler = ["cc", "-g", "-fvisibility=hidden", "-I", self.top]
            subprocess.run([*compiler, "-c", source, "-o", build / output], check=True)
            commands.append({"directory": str(build), "file": f"../{name}", "output": output})
        (build / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
        return build

    def check(self, *faults, calls=False):
        """Checks that exactly these faults are found."""
        done = rooms("--source", self.top, *(["--build", self.build()] if calls else []))
        self.assertEqual(done, (1 if faults else 0, list(faults)))

    def test_good(self):
        self.check(calls=True)
        page = (self.top / "HACKING.md").read_text(encoding="utf-8")
        self.assertTrue(page.startswith("# About\n") and page.endswith("\nThe end.\n"), page)
        self.assertIn("| `high/side` | A room in a room | `low` |\n", page)
        self.assertIn("1. `high/high.c:high_call` (the start): It calls.\n", page)
        self.assertIn("2. `low/low.h:low_inline`: And that.\n", page)

    def test_include_that_goes_up(self):
        self.replace("low/low.c", '#include "low.h"', '#include "low.h"\n#include "high/high.h"')
        self.check("low/low.c: includes high/high.h, but low may not use high")

    def test_include_by_another_way(self):
        self.replace("low/low.c", '#include "low.h"', '#include "low.h"\n#  include "../high/high.h"')
        self.check("low/low.c: includes high/high.h, but low may not use high")

    def test_include_by_angle_brackets(self):
        self.replace("low/low.c", '#include "low.h"', '#include "low.h"\n#include <high/high.h>')
        self.check("low/low.c: includes high/high.h, but low may not use high")

    def test_include_of_a_room_around(self):
        self.replace("high/side/side.c", '#include "low/low.h"', '#include "high/high.h"\n#include "low/low.h"')
        self.check("high/side/side.c: includes high/high.h, but high/side may not use high")

    def test_include_of_tests(self):
        self.write("tests/help.h", "")
        self.replace("high/high.c", "#include <stdio.h>", '#include "tests/help.h"')
        self.check("high/high.c: includes tests/help.h, but high may not use tests")

    def test_include_of_nothing(self):
        # In a branch that is not compiled, so the compiler does not complain.
        self.replace("high/high.c", "#include <stdio.h>", '#if 0\n#include "low/gone.h"\n#endif')
        self.check("high/high.c: includes low/gone.h, which is not in this tree")

    def test_source_in_no_room(self):
        self.write("more/more.c", "")
        self.check("more/more.c: is in no room of rooms.conf")

    def test_call_that_only_some_may(self):
        self.replace("rooms.conf", "[way:", "[only]\nlow_c* = high/high.c, high/side\n\n[way:")
        rooms("--source", self.top, "--write")
        self.check(calls=True)
        self.replace("rooms.conf", "low_c* = high/high.c, high/side", "low_c* = high/high.c, tests, gone.c")
        rooms("--source", self.top, "--write")
        self.check(
            "rooms.conf: [only]: gone.c is neither a room nor a source",
            "high/side/side.c: calls low_call, which only high/high.c, tests, gone.c may",
            calls=True,
        )
        self.replace("rooms.conf", "low_c* = high/high.c, tests, gone.c", "low_c* = high/high.c, high/side, low")
        rooms("--source", self.top, "--write")
        self.check("rooms.conf: [only]: low does not call low_c*", calls=True)

    # The lower room's own header declares the function; only the objects show which room defines it.
    def test_call_that_goes_up(self):
        self.replace("low/low.c", "return n;", "return n + low_hook();")
        self.replace("high/high.c", "int high_call", "int low_hook(void) {\n        return 3;\n}\n\nint high_call")
        self.replace("high/high.h", "int high_call", "int low_hook(void);\nint high_call")
        self.check("low_low.c.o: uses low_hook of high, but low may not", calls=True)

    def test_variable_of_a_room_above(self):
        self.replace("low/low.c", "int low_call", "extern int high_level;\n\nint low_call")
        self.replace("low/low.c", "return n;", "return high_level;")
        self.replace("high/high.c", "int high_call", "int high_level = 3;\n\nint high_call")
        self.replace("high/high.h", "int high_call", "extern int high_level;\nint high_call")
        self.check("low_low.c.o: uses high_level of high, but low may not", calls=True)

    def test_call_of_a_room_beside(self):
        self.replace(
            "high/high.c",
            "int high_call(void) {\n        return ",
            "int side_call(void);\n\nint high_call(void) {\n        return side_call() + ",
        )
        self.check("high_high.c.o: uses side_call of high/side, but high may not", calls=True)

    def test_call_of_what_two_rooms_define(self):
        # As libxsched and a layer do, for example. The call may be of either, so it is allowed.
        self.replace(
            "high/side/side.c",
            "int side_call(void);",
            "int low_call(int n) {\n        return n;\n}\n\nint side_call(void);",
        )
        self.check(calls=True)

    def test_call_of_a_library(self):
        # One room interposes a function of libc's, and another room calls libc's.
        self.replace(
            "high/high.c",
            "int high_call",
            '__attribute__((visibility("default")))\nint close(int fd) {\n' "        return fd;\n}\n\nint high_call",
        )
        self.replace("low/low.c", "int low_call", "int close(int fd);\n\nint low_call")
        self.replace("low/low.c", "return n;", "return close(n);")
        self.check(calls=True)

    def test_call_by_the_compiler(self):
        self.replace("high/high.c", "int high_call", "int _Unwind(void) {\n        return 3;\n}\n\nint high_call")
        self.replace("low/low.c", "int low_call", "int _Unwind(void);\n\nint low_call")
        self.replace("low/low.c", "return n;", "return n + _Unwind();")
        self.check(calls=True)

    def test_object_that_was_not_built(self):
        build = self.build()
        (build / "high_high.c.o").unlink()
        self.assertEqual(rooms("--source", self.top, "--build", build), (1, ["high_high.c.o: was not built"]))

    def test_build_without_calls(self):
        build = self.build()
        (build / "compile_commands.json").write_text("[]", encoding="utf-8")
        self.assertEqual(
            rooms("--source", self.top, "--build", build), (1, [f"{build}: no call between sources was found"])
        )

    def ring(self, n):
        """Adds a circle of n sources to the room low."""
        for i in range(n):
            self.write(f"low/ring{i}.h", f"int ring{i}(int n);\n")
            self.write(
                f"low/ring{i}.c",
                f"int ring{(i + 1) % n}(int n);\nint ring{i}(int n);\n\n"
                f"int ring{i}(int n) {{\n        return ring{(i + 1) % n}(n);\n}}\n",
            )

    def list_circle(self, line):
        self.replace("rooms.conf", "[way:", f"[circles]\n{line}\n\n[way:")

    def test_circle_that_is_not_listed(self):
        self.ring(2)
        self.check("low: these need each other, and rooms.conf lists no such circle: ring0 ring1", calls=True)

    def test_circle_that_is_listed(self):
        self.ring(5)
        self.list_circle("low: ring4 ring3 ring2 ring1 ring0 = They are a ring")
        self.check(calls=True)

    def test_circle_without_a_reason(self):
        self.ring(2)
        self.list_circle("low: ring0 ring1 =")
        self.check("rooms.conf: [circles]: low: ring0 ring1: does not say why", calls=True)

    def test_circle_that_is_too_large(self):
        self.ring(6)
        line = "low: ring0 ring1 ring2 ring3 ring4 ring5"
        self.list_circle(f"{line} = They are a ring")
        self.check(f"rooms.conf: [circles]: {line}: 6 sources, at most 5 may", calls=True)

    def test_circle_that_has_grown(self):
        self.ring(3)
        self.list_circle("low: ring0 ring1 = They are a ring")
        self.check(
            "low: these need each other, and rooms.conf lists no such circle: ring0 ring1 ring2",
            "rooms.conf: [circles]: low: ring0 ring1: is not a circle as a whole",
            calls=True,
        )

    def test_circle_that_is_none_any_more(self):
        self.ring(2)
        self.list_circle("low: ring0 ring1 = They are a ring")
        self.write("low/ring0.c", "int ring0(int n);\n\nint ring0(int n) {\n        return n;\n}\n")
        self.check(
            "low/ring1.c: nothing in the product uses ring1",
            "rooms.conf: [circles]: low: ring0 ring1: is not a circle as a whole",
            calls=True,
        )

    def test_circle_of_which_the_build_leaves_out_a_source(self):
        self.ring(2)
        build = self.build()
        self.write("low/optional.c", "")
        self.list_circle("low: ring0 ring1 optional = They are a ring")
        self.assertEqual(rooms("--source", self.top, "--build", build), (0, []))

    def test_circle_of_a_source_that_is_gone(self):
        self.ring(2)
        self.list_circle("low: ring0 ring1 gone = They are a ring")
        self.check("rooms.conf: [circles]: low: ring0 ring1 gone: low has no source gone", calls=True)

    def test_circle_of_headers(self):
        self.write("low/other.h", '#pragma once\n\n#include "low/low.h"\n')
        self.replace("low/low.h", "int low_call", '#pragma once\n\n#include "other.h"\n\nint low_call')
        self.check("headers include each other in a circle: low/low.h low/other.h", calls=True)

    def test_two_circles(self):
        self.ring(4)
        self.list_circle("low: ring0 ring1 ring2 ring3 = They are a ring\nlow: low other = So are these")
        self.write("low/other.h", "int low_other(int n);\n")
        self.write(
            "low/low.c",
            '#include "low.h"\n\nint low_other(int n);\n\nint low_call(int n) {\n' "        return low_other(n);\n}\n",
        )
        self.write(
            "low/other.c",
            '#include "low.h"\n\nint low_other(int n);\n\nint low_other(int n) {\n' "        return low_call(n);\n}\n",
        )
        self.check(calls=True)

    def test_function_in_another_header(self):
        self.replace("low/low.c", "int low_call", "int low_hook(void) {\n        return 3;\n}\n\nint low_call")
        self.replace("low/low.h", "int low_hook(void);\n", "")
        self.write("low/other.h", "int low_hook(void);\n")
        self.replace("high/high.c", '#include "low/low.h"', '#include "low/low.h"\n#include "low/other.h"')
        self.replace("high/high.c", "return low_call", "return low_hook() + low_call")
        self.check("low/low.c: low_hook is not declared in low/low.h", calls=True)
        # A header that is the room's table may declare it.
        self.replace("rooms.conf", "is = What is below\n", "is = What is below\ntable = low/other.h\n")
        self.check(calls=True)

    def test_what_only_tests_use(self):
        self.replace("low/low.c", "int low_call", "int low_hook(void) {\n        return 3;\n}\n\nint low_call")
        self.replace("tests/test.c", "return high_call()", "return high_call() + low_hook()")
        self.check("low/low.c: nothing in the product uses low_hook", calls=True)
        # A comment is no use of it. A call in the same source is one, and so is taking its address.
        self.replace("low/low.c", "int low_call", "/* low_hook() */\nint low_call")
        self.check("low/low.c: nothing in the product uses low_hook", calls=True)
        self.replace("low/low.c", "return n;", "return n + low_hook();")
        self.check(calls=True)
        self.replace("low/low.c", "low_hook();", "((int (*)(void)) low_hook)();")
        self.check(calls=True)

    def test_data_that_nothing_uses(self):
        """What debuggers are told of it is no use."""
        self.replace("low/low.c", "int low_call", "extern const int low_data;\nconst int low_data = 3;\n\nint low_call")
        self.check("low/low.c: nothing in the product uses low_data", calls=True)
        self.replace("low/low.c", "return n;", "return n + *(&low_data + n);")
        self.check(calls=True)

    def test_export_that_only_tests_use(self):
        self.replace(
            "low/low.c",
            "int low_call",
            'int xsched_look(void);\n\n__attribute__((visibility("default")))\nint xsched_look(void) {\n'
            "        return 3;\n}\n\nint low_call",
        )
        self.check("low/low.c: nothing in the product uses xsched_look", calls=True)
        self.replace("high/high.c", "int high_call(void) {", 'int high_call(void) {\n        (void) "xsched_look";')
        self.check(calls=True)
        self.replace("high/high.c", '"xsched_look"', '"nothing"')
        self.check("low/low.c: nothing in the product uses xsched_look", calls=True)
        self.write("include/xsched.h", "int xsched_look(void);\n")
        self.replace("rooms.conf", "[tests]", "[include]\nis = The public API\nuses =\n\n[tests]")
        rooms("--source", self.top, "--write")
        self.check(calls=True)

    def test_what_a_macro_uses(self):
        self.replace("low/low.c", "return n;", "return USE(low_hook);")
        self.replace(
            "low/low.c",
            "int low_call",
            "#define DEFINE(name) int low_##name(void) { return 3; }\n#define USE(name) name()\n\n"
            "DEFINE(hook)\n\nint low_call",
        )
        self.check(calls=True)
        self.replace("low/low.c", "return USE(low_hook);", "return n;")
        self.check("low/low.c: nothing in the product uses low_hook", calls=True)

    def test_use_in_a_source_that_is_not_built(self):
        self.replace("low/low.c", "int low_call", "int low_hook(void) {\n        return 3;\n}\n\nint low_call")
        build = self.build()
        self.write("high/other.c", "int other(void) {\n        return low_hook();\n}\n")
        self.assertEqual(rooms("--source", self.top, "--build", build), (0, []))

    def test_list_with_a_circle(self):
        self.replace("rooms.conf", "is = What is below\nuses =", "is = What is below\nuses = high")
        rooms("--source", self.top, "--write")
        self.check("rooms.conf: [low]: uses high, which is not listed above it")

    def test_list_with_a_room_that_is_not_there(self):
        self.replace("rooms.conf", "[tests]", "[gone]\nis = Gone\nuses = low\n\n[tests]")
        rooms("--source", self.top, "--write")
        self.check("rooms.conf: [gone]: no such folder")

    def test_list_with_an_unknown_key(self):
        self.replace("rooms.conf", "is = What is below", "is = What is below\nmay = low")
        self.check("rooms.conf: [low]: unknown key may")

    def test_way_through_what_is_gone(self):
        self.replace("high/high.c", "high_call", "high_other")
        self.replace("tests/test.c", "return high_call()", "return 0")
        self.check(
            "rooms.conf: How it goes: high/high.c does not define high_call()",
            "rooms.conf: How it goes: no step before low/low.h:low_inline calls it, and it names no event",
        )

    def test_way_by_others(self):
        # By the largest allowed number of calls between two steps, then by one more.
        hops = "".join(f"int hop{i}(void) {{\n        return hop{i + 1}();\n}}\n\n" for i in range(5))
        self.replace("high/high.c", "low_call(low_inline())", "hop1()")
        self.replace("high/high.c", "int high_call", hops.replace("hop5()", "low_inline()") + "int high_call")
        rooms("--source", self.top, "--write")
        self.check()
        self.replace("high/high.c", "return hop1();\n}\n\nint main", "return hop0();\n}\n\nint main")
        rooms("--source", self.top, "--write")
        self.check("rooms.conf: How it goes: no step before low/low.h:low_inline calls it, and it names no event")

    def test_way_by_an_event(self):
        self.replace("high/high.c", "low_call(low_inline())", "low_call(3)")
        self.replace("rooms.conf", "low_inline = And that", "low_inline = (a bell rings) And that")
        rooms("--source", self.top, "--write")
        self.check()
        self.assertIn("2. `low/low.h:low_inline` (a bell rings): And that.\n", (self.top / "HACKING.md").read_text())

    def test_way_by_an_earlier_step(self):
        self.replace("rooms.conf", "low/low.h:", "high/side/side.c:side_call = (a bell rings) Beside it\nlow/low.h:")
        rooms("--source", self.top, "--write")
        self.check()
        self.assertIn("3. `low/low.h:low_inline` (called by 1): And that.\n", (self.top / "HACKING.md").read_text())

    def test_way_by_a_comment(self):
        self.replace("high/high.c", "low_call(low_inline())", "low_call(3 /* low_inline() */)")
        self.check("rooms.conf: How it goes: no step before low/low.h:low_inline calls it, and it names no event")

    def test_way_through_a_declaration(self):
        self.replace("rooms.conf", "low/low.h:low_inline", "low/low.h:low_call")
        rooms("--source", self.top, "--write")
        self.check("rooms.conf: How it goes: low/low.h does not define low_call()")

    def test_way_through_a_call(self):
        self.replace("rooms.conf", "high/high.c:high_call", "high/high.c:low_call")
        rooms("--source", self.top, "--write")
        self.check(
            "rooms.conf: How it goes: high/high.c does not define low_call()",
            "rooms.conf: How it goes: no step before low/low.h:low_inline calls it, and it names no event",
        )

    def test_way_through_a_macro(self):
        self.replace("rooms.conf", "high/high.c:high_call", "high/high.c:set_it")
        self.write(
            "high/high.c",
            "#define SETTER(name, type) int name(type v)\nint set_it(int v);\n\n"
            "SETTER(set_it, int) {\n        return low_inline();\n}\n",
        )
        self.write("tests/test.c", "")
        rooms("--source", self.top, "--write")
        self.check()

    def test_way_through_a_file_that_is_gone(self):
        self.replace("rooms.conf", "low/low.h:low_inline", "low/gone.h:low_inline")
        rooms("--source", self.top, "--write")
        self.check("rooms.conf: How it goes: low/gone.h:low_inline: no such file")

    def test_page_that_is_stale(self):
        self.replace("HACKING.md", "What is below", "What was below")
        self.check("HACKING.md: differs from what rooms.conf says: tools/rooms --write")

    def test_page_without_a_place(self):
        self.write("HACKING.md", "# About\n")
        self.assertEqual(
            rooms("--source", self.top), (1, ["HACKING.md: lacks the lines between which the page belongs"])
        )


if __name__ == "__main__":
    unittest.main()
