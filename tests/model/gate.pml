/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate: hold, lease, release, escape, death and adoption (common/page.h, page_slot_wait() and its peers)
 *
 * Two threads of one client come to the gate of one slot again and again. One service holds, renews and releases. The
 * service can be stopped, continued, killed and started again between any two of its steps, with the file-descriptor
 * store (the next instance adopts the page) or without it (the lifeline hangs up, and the client escapes). The client
 * can be killed, too. One step here is one atomic access of the code; page.h asks for sequential consistency.
 *
 * Time is relative, so everything is checked for runs of any length: `lease` is the number of ticks left of the page's
 * lease, `until[t]` of the timeout that thread t took from it. Ticks come between any two steps.
 *
 * The generation in the verdict word is a 31 bit counter, which does not wrap while a thread is between two of its
 * instructions. So the model has a flag in its place: `moved[t]` says that the word was stored since thread t loaded
 * it.
 *
 * `mutant` (from the environment) selects one deliberate error, to show that the properties can fail; 0 is the protocol
 * as it is. run-models.py knows them by these names.
 */

#define NO_GENERATION     1 /* FUTEX_WAIT compares only hold or run */
#define WAITERS_FIRST     2 /* the service reads waiters before it stores the verdict */
#define WAITERS_UNTOLD    3 /* a waiting thread does not count itself in waiters */
#define LEASE_NOT_REREAD  4 /* a timeout ends the wait, even if the lease was renewed meanwhile */
#define NO_TIMEOUT        5 /* the wait has no end of its own */
#define HOLD_FIRST        6 /* the service writes the hold first and the lease afterwards */
#define EXPIRED_UNCHECKED 7 /* no second look at the word before "the lease has run out" */
#define ADOPT_AS_FRESH    8 /* a restarted service takes an old slot for a new one */
#define ADOPT_SILENTLY    9 /* a restarted service reads waiters before it stores, and wakes only if there are some */
#define KICK_KEEPS_WORD  10 /* the escape wakes, but leaves the word as it was */

/* With liveness it only matters that the lease ends. */
#ifdef LIVENESS
#define LEASE 1
#else
#define LEASE 2
#endif

byte mutant = 0;

/* the page */
bool hold;
byte lease;
byte waiters;

/* the client */
bool escape;
bool client_dead;
bool moved[2];
bool asleep[2];
byte until[2];
bool waiting[2]; /* ghost: the thread wants to launch, and is not through */

/* the service */
mtype = { ALIVE, STOPPED, DEAD };
mtype service = ALIVE;
bool stored; /* the descriptors are in the store, so the service's death hangs nothing up */
bool buried; /* an instance has ended */
bool last;   /* the service's own copy of the verdict */
bool leased; /* ghost: the hold in force was given a lease, and was not ended by a release */

inline store_word(v) {
        d_step {
                hold = v;
                moved[0] = true;
                moved[1] = true
        }
}

inline wake() {
        d_step {
                asleep[0] = false;
                asleep[1] = false
        }
}

/* Resets what thread t has read from the page, so that there are fewer states. */
inline forget(t) {
        moved[t] = true;
        until[t] = 0
}

proctype Thread(byte t) {
        bool word;

        {
                do
                ::
                        waiting[t] = true;
                        if
                        :: mutant != WAITERS_UNTOLD -> waiters++
                        :: else
                        fi;

look:                   atomic { word = hold; moved[t] = false };
                        if
                        :: d_step { !word || escape -> forget(t) };
                           goto pass
                        :: else -> d_step { until[t] = lease; word = false }
                        fi;
                        if
                        :: d_step { until[t] == 0 && (mutant == EXPIRED_UNCHECKED || !moved[t]) ->
                                /* A thread passes a hold only after the hold had its lease, and the lease is over. */
                                assert(leased);
                                forget(t)
                           };
                           goto pass
                        :: d_step { until[t] == 0 && mutant != EXPIRED_UNCHECKED && moved[t] -> forget(t) }
                        :: d_step { until[t] != 0 && (mutant == NO_GENERATION -> hold : !moved[t]) ->
                                /* FUTEX_WAIT: compare and sleep are one step. Never over a verdict that came after the
                                 * look. */
                                assert(!moved[t]);
                                asleep[t] = true;
                                moved[t] = true
                           };
                           !asleep[t];
                           if
                           :: d_step { mutant == LEASE_NOT_REREAD && until[t] == 0 -> assert(lease == 0); forget(t) };
                              goto pass
                           :: d_step { else -> forget(t) }
                           fi
                        :: d_step { until[t] != 0 && (mutant == NO_GENERATION -> !hold : moved[t]) -> forget(t) }
                        fi;
                        goto look;

pass:                   atomic {
                                word = false;
                                waiting[t] = false;
                                if
                                :: mutant != WAITERS_UNTOLD -> waiters--
                                :: else
                                fi
                        }
                od
        } unless {
                client_dead
        }
}

inline set_hold() {
        if
        :: mutant == HOLD_FIRST ->
                store_word(true);
                last = true;
                d_step { lease = LEASE; leased = true }
        :: else ->
                d_step { lease = LEASE; leased = true };
                store_word(true);
                last = true
        fi
}

inline set_run() {
        if
        :: mutant == WAITERS_FIRST ->
                seen = (waiters != 0);
                store_word(false)
        :: else ->
                store_word(false);
                seen = (waiters != 0)
        fi;
        last = false;
        if
        :: seen -> wake()
        :: else
        fi;
        seen = false;
        /* No lost wake-up: each thread that was held is awake, without the end of a lease. */
        assert(!asleep[0] && !asleep[1]);
        d_step { lease = 0; leased = false }
}

inline adopt() {
        if
        :: mutant == ADOPT_AS_FRESH -> last = false
        :: mutant == ADOPT_SILENTLY ->
                seen = (waiters != 0);
                store_word(false);
                if
                :: seen -> wake()
                :: else
                fi;
                seen = false;
                last = false
        :: else ->
                store_word(false);
                wake();
                last = false
        fi;
        /* The page says what the service believes, and no thread sleeps while it says run. */
        assert(hold == last);
        assert(!asleep[0] && !asleep[1]);
        d_step { lease = 0; leased = false }
}

#ifdef LIVENESS
#define MAY_STOP provided (service != STOPPED)
#else
#define MAY_STOP /* a stopped service is a slow one: there are no other states */
#endif

proctype Service() MAY_STOP {
        bool seen;

start:  {
                do
                :: !last -> set_hold()
                :: last -> set_run()
                :: last -> lease = LEASE
                od
        } unless {
                service == DEAD || client_dead
        };
        d_step { seen = false; buried = true };

        /* Another instance, some time later or never. */
        d_step { service == ALIVE && !client_dead -> buried = false };
        adopt();
        goto start
}

/* Deaths, stops and signals. */
proctype Fate() {
        do
#ifdef LIVENESS
        /* Fairness makes a process do something for ever, as long as it can. What need not happen must not be made to
         * happen so: clients that die or get signals would be freed by that alone. (Spin refuses a loop on true.) */
        :: mutant < 255
        :: service == ALIVE -> service = STOPPED
        :: service == STOPPED -> service = ALIVE
#endif
        :: service != DEAD -> service = DEAD
        :: d_step { service == DEAD && stored && buried -> service = ALIVE }
        :: d_step {
                !client_dead -> client_dead = true; waiters = 0; lease = 0; wake();
                waiting[0] = false; waiting[1] = false
           }
        :: asleep[0] -> asleep[0] = false /* a signal */
        od
}

/* The client's control thread: the lifeline hangs up when the service dies and the descriptors are not in the store. */
proctype Control() {
        {
                service == DEAD && !stored;
                escape = true;
                if
                :: mutant != KICK_KEEPS_WORD -> d_step { moved[0] = true; moved[1] = true }
                :: else
                fi;
                wake();
                /* No thread sleeps from now on. */
                d_step { asleep[0] || asleep[1] -> assert(false) }
        } unless {
                client_dead
        }
}

proctype Clock() {
        do
        :: d_step { lease > 0 || until[0] > 0 || until[1] > 0 ->
                lease = (lease > 0 -> lease - 1 : 0);
                until[0] = (until[0] > 0 -> until[0] - 1 : 0);
                until[1] = (until[1] > 0 -> until[1] - 1 : 0);
                asleep[0] = asleep[0] && (until[0] > 0 || mutant == NO_TIMEOUT);
                asleep[1] = asleep[1] && (until[1] > 0 || mutant == NO_TIMEOUT);
                /* No thread waits for longer than the lease in the page. */
                assert(lease > 0 || (!asleep[0] && !asleep[1]))
           }
        od
}

init {
        c_code { if (getenv("MUTANT")) now.mutant = (unsigned char) atoi(getenv("MUTANT")); };
        atomic {
                if
                :: stored = true
                :: stored = false
                fi;
                run Thread(0);
#ifndef LIVENESS /* a wait in vain for one of two threads would violate safety: see set_run() */
                run Thread(1);
#endif
                run Service();
                run Fate();
                run Control();
                run Clock()
        }
}

#ifdef LIVENESS
/* A service that is gone for good holds no thread for good; nor does one whose last verdict is run. */
ltl freed { (<>[] (service != ALIVE)) -> [](waiting[0] -> <>!waiting[0]) }
ltl released { (<>[] (!hold)) -> [](waiting[0] -> <>!waiting[0]) }
#endif
