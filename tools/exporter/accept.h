/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Chooses the format by the Accept header
 */

#include "render.h"

/* The format that an Accept header asks for. Without a header, or with an invalid one: the classic format. */
Format format_from_accept(const char *accept);
const char *format_content_type(Format format);
