/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The look of pictures: colours on a light and on a dark ground, and letters
 *
 * For `xschedctl plot`, xsched-demo, and the page for Cockpit, whose style sheet repeats these values. Series have the
 * colours of Okabe and Ito (https://jfly.uni-koeln.de/color/), which nearly everybody can tell apart; the last colour
 * is for series without a name.
 */

#define PICTURE_FONT "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"

#define PICTURE_BACKGROUND "#ffffff"
#define PICTURE_TEXT       "#1c2128"
#define PICTURE_DIM        "#57606a"
#define PICTURE_GRID       "#e3e7eb"
#define PICTURE_LIMIT      "#8250df"

#define PICTURE_DARK_BACKGROUND "#0d1117"
#define PICTURE_DARK_TEXT       "#e6edf3"
#define PICTURE_DARK_DIM        "#9198a1"
#define PICTURE_DARK_GRID       "#262d36"
#define PICTURE_DARK_LIMIT      "#c297ff"

#define PICTURE_SERIES_0 "#0072b2"
#define PICTURE_SERIES_1 "#e69f00"
#define PICTURE_SERIES_2 "#009e73"
#define PICTURE_SERIES_3 "#d55e00"
#define PICTURE_SERIES_4 "#56b4e9"
#define PICTURE_SERIES_5 "#cc79a7"
#define PICTURE_SERIES_6 "#f0e442"
#define PICTURE_SERIES_7 "#999999"
