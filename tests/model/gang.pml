/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Gangs that overlap on devices: none waits for ever (service/core/gang.h)
 *
 * Three gangs on three devices, each on two of them, in a ring: each pair of gangs shares a device, and no device
 * has all. On each device there is also an entity of higher priority, which comes and goes at any time, or stays. A
 * step is a turn of one device: its policy grants the device to one entity, and the verdicts of the gangs on it are
 * decided anew. The gangs always have work, which is the worst case.
 *
 * A policy is modelled by what all policies promise: an entity of higher priority has the device, equals take turns,
 * and an entity that was held for STARVE turns is owed one, whatever the priorities. Time is the number of turns of a
 * gang's lead.
 *
 * The property: a gang is held for at most WAIT_MAX turns of its lead in a row, whatever other devices do meanwhile.
 * Under weak fairness each gang runs again and again.
 *
 * `mutant` (from the environment) selects one deliberate error, to show that the properties can fail; 0 is the rule as
 * it is. run-models.py knows them by these names.
 */

#define ALL_GRANTS    1 /* a gang waits until it has the grants of all its devices, and keeps those that it has */
#define NO_END        2 /* an entity of higher priority on another device holds a gang without end */
#define GRANTS_FOLLOW 3 /* a policy leaves out gangs that are held */
#define NO_FLOOR      4 /* no entity is owed a turn */

byte mutant = 0;

/* Fairness makes a process do something for ever, as long as it can. What need not happen must not be made to happen
 * so. (Spin refuses a loop on true.) */
#ifdef LIVENESS
#define OR_NOTHING :: mutant < 255
#else
#define OR_NOTHING
#endif

#define N        3
#define NOBODY   N
#define HIGH     (N + 1)
#define STARVE   2
#define WAIT_MAX (2 * STARVE)

/* Gang g is on devices g and g + 1. */
#define IS_ON(g, d)  ((d) == (g) || (d) == ((g) + 1) % N)
#define OTHER(g, d)  ((d) == (g) -> ((g) + 1) % N : (g))
#define LEAD(g)      ((g) == N - 1 -> 0 : (g))

byte grant[N] = NOBODY; /* of each device */
byte last[N];           /* the gang that had it last */
bool high[N];           /* the entity of higher priority has work there */
byte unserved[N * N];   /* turns of a device since the gang's last one on it */
bool runs[N];
byte held[N];   /* turns of the lead for which it has been held; up to STARVE */
byte waited[N]; /* the same, up to WAIT_MAX + 1 */

#define UNSERVED(d, g) unserved[(d) * N + (g)]
#define IS_THERE(d, g) (IS_ON(g, d) && (mutant != GRANTS_FOLLOW || runs[g] || waited[g] == 0))

/* The next gang of the device in turn; with `owed` only of those that are owed a turn. */
inline choose(d, owed) {
        i = 1;
        do
        :: i <= N && chosen == NOBODY ->
                g = (last[d] + i) % N;
                if
                :: IS_THERE(d, g) && (!(owed) || UNSERVED(d, g) >= STARVE) -> chosen = g
                :: else
                fi;
                i++
        :: else -> break
        od
}

inline decide_grant(d) {
        chosen = NOBODY;
        if
        :: mutant == ALL_GRANTS && grant[d] < N && !runs[grant[d]] -> chosen = grant[d]
        :: else ->
                if
                :: mutant != NO_FLOOR -> choose(d, true)
                :: else
                fi;
                if
                :: chosen == NOBODY && high[d] -> chosen = HIGH
                :: chosen == NOBODY && !high[d] -> choose(d, false)
                :: else
                fi
        fi;
        grant[d] = chosen;
        g = 0;
        do
        :: g < N ->
                if
                :: chosen == g -> UNSERVED(d, g) = 0; last[d] = g
                :: chosen != g && IS_ON(g, d) && UNSERVED(d, g) < STARVE -> UNSERVED(d, g)++
                :: else
                fi;
                g++
        :: else -> break
        od
}

inline decide_gang(d, g) {
        lead = LEAD(g);
        ok = (grant[lead] == g);
        if
        :: mutant == ALL_GRANTS -> ok = (grant[g] == g && grant[(g + 1) % N] == g)
        :: mutant == NO_END -> ok = (ok && grant[OTHER(g, lead)] != HIGH)
        :: else -> ok = (ok && (held[g] >= STARVE || grant[OTHER(g, lead)] != HIGH))
        fi;
        if
        :: ok -> held[g] = 0; waited[g] = 0
        :: !ok && d == LEAD(g) ->
                held[g] = (held[g] < STARVE -> held[g] + 1 : STARVE);
                waited[g]++;
                assert(waited[g] <= WAIT_MAX)
        :: else
        fi;
        runs[g] = ok
}

proctype Device(byte d) {
        byte g, i, chosen, lead;
        bool ok;

        do
        :: d_step {
                decide_grant(d);
                g = 0;
                do
                :: g < N ->
                        if
                        :: IS_ON(g, d) -> decide_gang(d, g)
                        :: else
                        fi;
                        g++
                :: else -> break
                od;
                g = 0; i = 0; chosen = 0; lead = 0; ok = false
           }
        od
}

proctype Others() {
        do
        OR_NOTHING
        :: d_step { high[0] = !high[0] }
        :: d_step { high[1] = !high[1] }
        :: d_step { high[2] = !high[2] }
        od
}

init {
        c_code { if (getenv("MUTANT")) now.mutant = (unsigned char) atoi(getenv("MUTANT")); };
        atomic {
                run Device(0);
                run Device(1);
                run Device(2);
                run Others()
        }
}

#ifdef LIVENESS
ltl served { [](<>runs[0]) && [](<>runs[1]) && [](<>runs[2]) }
#endif
