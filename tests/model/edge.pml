/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The edges: ready and idle, watch, dirty bits, eventfd, the untracked bit and its drain (common/page.h,
 * page_slot_begin() and its peers)
 *
 * Threads of one client launch on one slot, a device completes their launches, and the client's control thread drains
 * on request. One service watches the slot or does not, reads the eventfd, takes the dirty bits and looks. The service
 * can be killed between any two of its steps and started again on the same page; a service that is stopped is a slow
 * one, which the model has anyway. The client can be killed, too. One step here is one atomic access or one system call
 * of the code.
 *
 * The property is about what the service believes. Whenever nothing is under way (no message is unread, no thread is
 * between two steps of an operation), a service that watches the slot believes the truth about it, and no work is left
 * that is neither counted nor drained. Under weak fairness the service comes to believe the truth.
 *
 * The model has the one exception of page.h: a launch that read `watch == 0` may be on the device uncounted after the
 * bit was cleared. What the service believes about counted launches is true all the same.
 *
 * There are two runs: one thread with every death, and (CROWD) two threads without deaths. Both together have too many
 * states, and would show no more, because a death affects a thread only through the page.
 *
 * `mutant` (from the environment) selects one deliberate error, to show that the properties can fail; 0 is the protocol
 * as it is. run-models.py knows them by these names.
 */

#define WATCH_AFTER_LOOK   1 /* the service looks at outstanding, then stores watch */
#define DIRTY_AFTER_WAKE   2 /* the client writes the eventfd, then sets its dirty bit */
#define TAKE_BEFORE_READ   3 /* the service takes the dirty bits, then reads the eventfd */
#define WATCH_READ_FIRST   4 /* the client reads watch, then counts its launch */
#define IDLE_READ_FIRST    5 /* the client reads watch, then counts the completion */
#define OPEN_UNCHECKED     6 /* a thread that sets the untracked bit does not look at watch again */
#define OPEN_EDGE_BY_FIRST 7 /* a thread that clears the bit ignores that the word may have become 0 meanwhile */
#define ADOPT_BY_DIRTY     8 /* a restarted service watches, and relies on the dirty bits for the rest */
#define LOOK_NO_DRAIN      9 /* the service does not ask for a drain when it begins to watch */
#define DRAIN_NO_EDGE     10 /* the end of a drain is not reported */

byte mutant = 0;

/* Fairness makes a process do something for ever, as long as it can. What need not happen must not be made to happen
 * so: a service that dies again and again would leave every state that a formula is about. (Spin refuses a loop on
 * true.) */
#ifdef LIVENESS
#define OR_NOTHING :: mutant < 255
#else
#define OR_NOTHING
#endif

/* the page */
byte count;     /* outstanding, without ... */
bool untracked; /* ... its bit */
bool watch;     /* both edges */
bool dirty;

/* between the two */
bool event; /* the eventfd is readable */
bool knock; /* an 'l' is unread in the lifeline */

/* the client */
byte counted, uncounted; /* launches with the device */
bool drain;              /* a drain was requested, and `ahead` launches are before it */
byte ahead;
bool client_dead;
byte busy; /* ghost: operations begun and not ended */

/* the service */
mtype = { ALIVE, DEAD };
mtype service = ALIVE;
bool buried;   /* an instance has ended */
bool watching; /* its own copy of watch */
bool believed; /* ready, as far as it knows */

#define READY (count > 0 || untracked)

inline notify() {
        if
        :: d_step { mutant == DIRTY_AFTER_WAKE -> event = true };
           dirty = true
        :: d_step { mutant != DIRTY_AFTER_WAKE -> dirty = true };
           event = true
        fi
}

proctype Thread() {
        bool edge, open;

        {
                do
                OR_NOTHING
                :: d_step { counted + uncounted + busy < 2 -> busy++; open = !watch };
                   if
                   :: d_step { open && untracked -> open = false };
                      d_step { uncounted++; busy-- }
                   :: d_step { open && !untracked -> edge = !READY; untracked = true; open = false };
                      if
                      :: d_step { !watch || mutant == OPEN_UNCHECKED -> edge = false };
                         d_step { uncounted++; busy-- }
                      :: d_step { watch && mutant != OPEN_UNCHECKED -> skip };
                         d_step { edge = edge || (!READY && mutant != OPEN_EDGE_BY_FIRST); count++ };
                         untracked = false;
                         if
                         :: d_step { edge -> edge = false }; notify()
                         :: !edge
                         fi;
                         d_step { counted++; busy-- }
                      fi
                   :: d_step { !open && mutant == WATCH_READ_FIRST -> open = watch };
                      d_step { edge = !READY && open; count++; open = false };
                      if
                      :: d_step { edge -> edge = false }; notify()
                      :: !edge
                      fi;
                      d_step { counted++; busy-- }
                   :: d_step { !open && mutant != WATCH_READ_FIRST -> edge = !READY; count++ };
                      if
                      :: d_step { edge && watch -> edge = false }; notify()
                      :: d_step { !(edge && watch) -> edge = false }
                      fi;
                      d_step { counted++; busy-- }
                   fi
                od
        } unless {
                client_dead
        }
}

proctype Device() {
        bool edge, w;

        {
                do
                :: d_step { counted > 0 -> counted--; busy++; w = (mutant == IDLE_READ_FIRST && watch) };
                   d_step { count--; edge = !READY };
                   if
                   :: d_step { edge && (mutant == IDLE_READ_FIRST -> w : watch) -> edge = false; w = false }; notify();
                      busy--
                   :: d_step { !(edge && (mutant == IDLE_READ_FIRST -> w : watch)) -> edge = false; w = false; busy-- }
                   fi
                :: d_step { uncounted > 0 -> uncounted--; ahead = (ahead > 0 -> ahead - 1 : 0) }
                od
        } unless {
                client_dead
        }
}

proctype Control() {
        bool edge;

        {
                do
                :: d_step { knock -> knock = false; busy++; edge = watch };
                   d_step {
                        if
                        :: edge && untracked -> drain = true; ahead = uncounted
                        :: else
                        fi;
                        edge = false;
                        busy--
                   }
                :: d_step { drain && ahead == 0 -> drain = false; busy++ };
                   d_step { edge = untracked && count == 0; untracked = false };
                   if
                   :: d_step { edge && watch && mutant != DRAIN_NO_EDGE -> edge = false }; notify();
                      busy--
                   :: d_step { !(edge && watch && mutant != DRAIN_NO_EDGE) -> edge = false; busy-- }
                   fi
                od
        } unless {
                client_dead
        }
}

inline look() {
        d_step { believed = READY; left = untracked };
        d_step { knock = knock || left; left = false }
}

inline set_watch() {
        if
        :: d_step { mutant == WATCH_AFTER_LOOK -> believed = READY; left = untracked };
           watch = true
        :: d_step { mutant != WATCH_AFTER_LOOK -> watch = true };
           d_step { believed = READY; left = untracked && mutant != LOOK_NO_DRAIN }
        fi;
        d_step { knock = knock || left; left = false; watching = true }
}

proctype Service() {
        bool left, named;

start:  {
                do
                ::
                        if
                        :: d_step { event && mutant == TAKE_BEFORE_READ -> named = dirty; dirty = false };
                           event = false
                        :: d_step { event && mutant != TAKE_BEFORE_READ -> event = false };
                           d_step { named = dirty; dirty = false }
                        fi;
                        if
                        :: d_step { named && watching -> named = false }; look()
                        :: d_step { !(named && watching) -> named = false }
                        fi
                :: !watching && !client_dead -> set_watch()
                :: d_step { watching -> watch = false; watching = false; believed = false }
                :: d_step { watching && !event && !knock && !drain && busy == 0 && !client_dead ->
                        assert(believed == READY);
                        assert(!untracked)
                   }
                :: d_step { client_dead && (watching || believed) -> watching = false; believed = false }
                od
        } unless {
                service == DEAD
        };
        d_step { left = false; named = false; watching = false; believed = false; buried = true };

        d_step { service == ALIVE && !client_dead -> buried = false };
        if
        :: d_step { mutant == ADOPT_BY_DIRTY -> watch = true; watching = true }
        :: mutant != ADOPT_BY_DIRTY -> set_watch()
        fi;
        goto start
}

proctype Fate() {
        do
        OR_NOTHING
        :: service == ALIVE -> service = DEAD
        :: d_step { service == DEAD && buried -> service = ALIVE }
        :: d_step { !client_dead ->
                client_dead = true;
                counted = 0; uncounted = 0; count = 0; untracked = false; drain = false; ahead = 0; busy = 0;
                knock = false; event = false; dirty = false; watch = false
           }
        od
}

init {
        c_code { if (getenv("MUTANT")) now.mutant = (unsigned char) atoi(getenv("MUTANT")); };
        atomic {
                run Thread();
#ifdef CROWD
                run Thread();
#else
                run Fate();
#endif
                run Device();
                run Control();
                run Service()
        }
}

#ifdef LIVENESS
#define WRONG                                                                                               \
        (service == ALIVE &&                                                                                \
                        ((watching && !client_dead && believed != READY) || (client_dead && believed)))
#define STUCK (service == ALIVE && watching && !client_dead && untracked)
/* A living service learns of every edge while it watches, and of the client's end. Launches that ran uncounted before
 * it watched are drained. */
ltl learnt { [](WRONG -> <>!WRONG) }
ltl drained { [](STUCK -> <>!STUCK) }
#endif
