/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The drained edge: what a held queue has in flight is over (common/page.h, page_slot_drained_edge() and its peers)
 *
 * Threads of one client count a launch, wait for room or at the gate while it is held, or pass; a wait may be given up;
 * a device completes what is in flight. One service holds, looks, is told, looks again, and lets go; it can be killed
 * between any two of its steps and started again on the same page, where it lets go first. One step here is one atomic
 * access or one system call of the code.
 *
 * What is checked: a service that comes to know that nothing is in flight is right at that moment; and whenever nothing
 * is under way, a service that waits to be told has something to wait for. And, under weak fairness, that it is told.
 *
 * `mutant` (from the environment) selects one deliberate error, to show that the properties can fail; 0 is the protocol
 * as it is. run-models.py knows them by these names.
 */

#define COMPLETION_LOOKS_FIRST 1 /* a completion reads the verdict, then takes itself off outstanding */
#define WAIT_NOT_LOOKED_AT     2 /* who begins to wait does not look whether that was the last that was missing */
#define WAIT_LOOKS_FIRST       3 /* ... or looks, and then says that it waits */
#define LOOKS_TWICE            4 /* the service loads waiters, then outstanding */
#define LOOK_BEFORE_HOLD       5 /* the service looks, then holds */
#define GIVES_UP_COUNT_FIRST   6 /* who gives up his wait takes it off outstanding, then off waiters */
#define END_OF_WAIT_UNTOLD     7 /* who gives up his wait does not look */

byte mutant = 0;

/* the page */
bool hold;
byte outstanding;
byte waiters;
bool dirty;

/* between the two */
bool event;

/* the client */
byte flying; /* with the device */
byte slack;  /* ghost: read run, not yet with the device */
byte busy;   /* ghost: operations begun and not ended; a wait is none */

/* the service */
mtype = { ALIVE, DEAD };
mtype service = ALIVE;
bool buried;
bool draining; /* it holds, and waits to be told */

#define LAUNCHES 3

/* The rest of page_slot_drained_edge() after the verdict, `h`, was loaded; and the telling. */
inline look_and_tell(h, edge) {
        if
        :: d_step { h -> edge = (outstanding == waiters); h = false };
           if
           :: d_step { edge -> edge = false; dirty = true };
              event = true
           :: !edge
           fi
        :: !h
        fi
}

proctype Thread() {
        bool h, edge;

        do
        :: d_step { outstanding < LAUNCHES -> busy++; outstanding++ };
           d_step { h = hold; slack = slack + (!hold) };
           if
           :: d_step { !h -> slack--; flying++; busy-- } /* it passes */
           :: d_step { h && mutant == WAIT_LOOKS_FIRST -> h = hold };
              look_and_tell(h, edge);
              d_step { waiters++; busy--; h = true }
           :: d_step { h && mutant == WAIT_NOT_LOOKED_AT -> waiters++; busy-- }
           :: d_step { h && mutant != WAIT_LOOKS_FIRST && mutant != WAIT_NOT_LOOKED_AT -> waiters++ };
              h = hold;
              look_and_tell(h, edge);
              d_step { busy--; h = true }
           fi;
           if
           :: d_step { !h -> skip }
           :: d_step { h && !hold -> busy++; slack++; h = false }; /* let go */
              d_step { waiters--; slack--; flying++; busy-- }
           :: d_step { h -> busy++; h = false }; /* given up */
              if
              :: d_step { mutant == GIVES_UP_COUNT_FIRST -> outstanding-- };
                 waiters--
              :: d_step { mutant != GIVES_UP_COUNT_FIRST -> waiters-- };
                 outstanding--
              fi;
              d_step { h = (hold && mutant != END_OF_WAIT_UNTOLD) };
              look_and_tell(h, edge);
              busy--
           fi
        od
}

proctype Device() {
        bool h, edge;

        do
        :: d_step { flying > 0 -> busy++; flying--; h = (mutant == COMPLETION_LOOKS_FIRST && hold) };
           outstanding--;
           d_step { h = (mutant == COMPLETION_LOOKS_FIRST -> h : hold) };
           look_and_tell(h, edge);
           busy--
        od
}

/* page_slot_read_in_flight(). What it comes to know is so. */
inline look() {
        if
        :: d_step { mutant == LOOKS_TWICE -> seen = waiters };
           d_step {
                assert(!draining || outstanding > seen || flying == 0);
                draining = (draining && outstanding > seen);
                seen = 0
           }
        :: d_step { mutant != LOOKS_TWICE ->
                assert(!draining || outstanding > waiters || flying == 0);
                draining = (draining && outstanding > waiters)
           }
        fi
}

proctype Service() {
        byte seen;

start:  {
                do
                :: d_step { event -> event = false };
                   if
                   :: d_step { dirty -> dirty = false }; look()
                   :: d_step { !dirty -> skip }
                   fi
                :: d_step { !hold && mutant != LOOK_BEFORE_HOLD -> hold = true; draining = true };
                   look()
                :: d_step { !hold && mutant == LOOK_BEFORE_HOLD -> draining = true };
                   look();
                   hold = true
                :: d_step { hold -> hold = false; draining = false }
                :: d_step { hold && draining && !event && busy == 0 -> assert(flying + slack > 0) }
                od
        } unless {
                service == DEAD
        };
        d_step { seen = 0; draining = false; buried = true };

        /* page_slot_adopt() */
        d_step { service == ALIVE -> buried = false; hold = false };
        goto start
}

proctype Fate() {
        do
        :: service == ALIVE -> service = DEAD
        :: d_step { service == DEAD && buried -> service = ALIVE }
        od
}

init {
        c_code { if (getenv("MUTANT")) now.mutant = (unsigned char) atoi(getenv("MUTANT")); };
        atomic {
                run Thread();
                run Thread();
                run Fate();
                run Device();
                run Service()
        }
}

#ifdef LIVENESS
/* A service that lives, and waits for what is over, is told. */
#define UNTOLD (service == ALIVE && hold && draining && flying == 0 && slack == 0)
ltl told { [](UNTOLD -> <>!UNTOLD) }
#endif
