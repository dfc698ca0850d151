/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Chooses the format by the Accept header
 */

#include "render.h"

/* What an Accept header asks for. Whatever it says, one of them is the answer; NULL, or nonsense: the classic one. */
Format format_from_accept(const char *accept);
const char *format_content_type(Format format);
