/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The drained edge: what a held queue has in flight is over (common/page.h, page_slot_drained_edge() and its peers)
 *
 * Threads of one client count a launch, and then wait for room, wait at the gate while it is held, or pass. A wait may
 * be given up. A device completes what is in flight. One service holds, looks, is told, looks again, and releases. The
 * service can be killed between any two of its steps and started again on the same page, where it releases first. One
 * step here is one atomic access or one system call of the code.
 *
 * The properties: when the service learns that nothing is in flight, that is true at that moment; and whenever nothing
 * is under way, a service that waits to be told has something to wait for. Under weak fairness the service is told.
 *
 * `mutant` (from the environment) selects one deliberate error, to show that the properties can fail; 0 is the protocol
 * as it is. run-models.py knows them by these names.
 */

#define COMPLETION_LOOKS_FIRST 1 /* a completion reads the verdict, and subtracts itself from outstanding afterwards */
#define WAIT_NOT_LOOKED_AT     2 /* a thread that begins to wait does not look whether anything is still in flight */
#define WAIT_LOOKS_FIRST       3 /* ... or looks, and counts itself in waiters afterwards */
#define LOOKS_TWICE            4 /* the service loads waiters, then outstanding */
#define LOOK_BEFORE_HOLD       5 /* the service looks, then holds */
#define GIVES_UP_COUNT_FIRST   6 /* a thread that gives up its wait leaves outstanding first, then waiters */
#define END_OF_WAIT_UNTOLD     7 /* a thread that gives up its wait does not look */

byte mutant = 0;

/* Fairness makes a process do something for ever, as long as it can. What need not happen must not be made to happen
 * so: a service that dies again and again would leave every state that a formula is about. (Spin refuses a loop on
 * true.) */
#ifdef LIVENESS
#define OR_NOTHING :: mutant < 255
#define OR_WAIT    :: h -> goto waits
#else
#define OR_NOTHING
#define OR_WAIT
#endif

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
byte busy;   /* ghost: operations begun and not ended; a wait does not count */

/* the service */
mtype = { ALIVE, DEAD };
mtype service = ALIVE;
bool buried;
bool draining; /* it holds, and waits to be told */

#define LAUNCHES 3

/* The rest of page_slot_drained_edge(), after it has loaded the verdict `h`, and the wake-up of the service. */
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
        OR_NOTHING
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
waits:     if
           OR_WAIT
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

/* page_slot_read_in_flight(). What the service learns is true. */
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
        OR_NOTHING
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
/* A living service that waits until nothing is in flight is told, once no thread begins or gives up any more: one that
 * does so for ever can be between two steps whenever the service looks. */
#define UNTOLD (service == ALIVE && hold && draining && flying == 0 && slack == 0)
ltl told { (<>[] (busy == 0)) -> [](UNTOLD -> <>!UNTOLD) }
#endif
