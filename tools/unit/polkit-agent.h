/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The polkit agent of this terminal: asks for passwords
 *
 * polkit asks through an agent. A graphical session has one, a plain terminal does not. pkttyagent(1) is one for the
 * process that started it. It is started as a fallback, so that polkit asks an agent that exists already instead.
 * Without an agent, or without polkit, there is no question, and the call is refused.
 */

#include <stdbool.h>

/* Whether a person is at the terminal, and is not root: root is never asked. */
bool polkit_agent_is_useful(void);

/* Returns when polkit knows the agent, or when there will be none. Nothing is done when one runs. */
void polkit_agent_open(void);

/* To be called before another process has the terminal. */
void polkit_agent_close(void);
