/* Models the rate limiter's two gates. Writers book blocks of inserts before they commit, samplers
 * count a batch before they draw it, and both wait for each other through two events. Calls that have
 * to wait take turns (Turns, I12). Writers may die, a batch may come to nothing, and close() comes.
 * All that protocol.pml models is reduced to a count of published items here.
 *
 * Sizes    RATIO samples per insert, MIN items to sample, ERR error_buffer, BLOCK inserts booked at a
 *          time, BATCH items a batch (BATCH + RATIO * BLOCK <= 2 * ERR, as Limiter::check_batch
 *          requires), CAP items of capacity, NW writers of ROWS commits, NS samplers of BATCHES batches.
 * Options  DEATH     a writer may be destroyed before any commit; it returns what it booked
 *          NOTHING   one batch comes to nothing and is taken back
 *          NO_POLL   waiting writers rely on wakes alone, without the look every 10 ms
 *          LATE      the steps behind a writer's first become items only when its episode ends
 *          CLOSE_ANY close() may come at any moment; otherwise it comes when nobody else can move
 *          M_...     one rule broken; mutants.txt says which, and in which configuration it is found
 */
#ifndef RATIO
#define RATIO 1
#endif
#ifndef MIN
#define MIN 1
#endif
#ifndef ERR
#define ERR 1
#endif
#ifndef BLOCK
#define BLOCK 1
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef ROWS
#define ROWS 3
#endif
#ifndef NS
#define NS 1
#endif
#ifndef BATCHES
#define BATCHES 3
#endif
#if BATCH + RATIO * BLOCK > 2 * ERR
#error "Limiter::check_batch refuses this batch"
#endif

byte inserts, samples; /* counts of Limiter */
byte resident;         /* count of Budget */
byte rung;             /* items that are published and not yet ingested */
bit lk, shut;          /* a shard's lock is held; the buffer is closed */
bit sleepsS[NS], wokenS[NS], sleepsW[NW], wokenW[NW];
/* Models Turns. `line` has the waiting calls of a side, in order; all but the first sleep on an event
 * of Turns. Code under the mutex of Turns is one step. */
#define SAMPLERS 0
#define WRITERS 1
#if NS > NW
#define N NS
#else
#define N NW
#endif
byte line[2 * N], standing[2];
bit wokenT[2 * N];
bit letW[NW]; /* a writer that left the line booked inserts for this one: it was let in */

/* Ghosts: variables of the checks, which the library does not have. */
byte committed, booked, counted, undone, dead, served;

hidden byte i, j;

#define BALANCE(s, n) ((s) - RATIO * ((n) - MIN))

inline WAKE_SAMPLERS() {
  d_step {
    j = 0;
    for (i : 0 .. NS - 1) { j = j + sleepsS[i] }
    for (i : 0 .. NS - 1) { wokenS[i] = wokenS[i] || j > 0 }
  }
}
inline WAKE_WRITERS() {
  d_step {
    j = 0;
    for (i : 0 .. NW - 1) { j = j + sleepsW[i] }
    for (i : 0 .. NW - 1) { wokenW[i] = wokenW[i] || j > 0 }
  }
}
inline CLOSE_WAKE() {
  d_step {
    for (i : 0 .. NS - 1) { wokenS[i] = 1 }
#ifndef M_CLOSE_NO_WRITERS
    for (i : 0 .. NW - 1) { wokenW[i] = 1 }
    for (i : 0 .. 2 * N - 1) { wokenT[i] = 1 }
#endif
  }
}

/* Models Turns::wait_for_turn: waits in line until it is the first, was let in, or the buffer is closed. */
#define FIRST(side) (standing[side] > 0 && line[side * N] == me)
inline COME(side, let_in) {
  d_step { line[side * N + standing[side]] = me; standing[side]++ }
  do
  :: FIRST(side) || let_in || shut -> break
  :: else ->
#ifndef M_TURN_REGISTER_LATE
     wokenT[side * N + me] = 0; /* registers, and takes a ticket */
#endif
     if
     :: FIRST(side) || let_in || shut
     :: else ->
#ifdef M_TURN_REGISTER_LATE
        wokenT[side * N + me] = 0;
#endif
        wokenT[side * N + me]
     fi
  od;
  skip;
  wokenT[side * N + me] = 0
}
/* Models Turns::leave without its gate. Sets got if the caller was the first in line and others still
 * stand there. Call it inside a d_step. */
inline REMOVE(side) {
  got = FIRST(side) && standing[side] > 1;
  i = 0;
  do
  :: i < standing[side] && line[side * N + i] != me -> i++
  :: else -> break
  od;
  if
  :: i < standing[side] -> DROP(side, i)
  :: else
  fi;
  i = 0
}
inline DROP(side, at) {
  do
  :: at + 1 < standing[side] -> line[side * N + at] = line[side * N + at + 1]; at++
  :: else -> break
  od;
  standing[side]--;
  line[side * N + standing[side]] = 0
}
inline WAKE_TURNS(side) {
#ifndef M_TURN_NO_WAKE
  d_step { for (i : 0 .. N - 1) { wokenT[side * N + i] = 1 } i = 0 }
#else
  skip
#endif
}

/* Models LockedShard::ingest under the lock: published items enter, the oldest ones leave. */
inline INGEST() {
  d_step { resident = resident + rung; rung = 0 }
  d_step { resident = (resident > CAP -> CAP : resident); lk = 0 }
}
inline DRAIN() { atomic { !lk -> lk = 1 } INGEST() }

/* The inserts that the samplers' gate counts. */
#ifdef M_GATES_DIFFER
#define COUNTED_INSERTS resident
#else
#define COUNTED_INSERTS inserts
#endif

/* Models Limiter::book_inserts. Sets got if the inserts were booked. */
inline BOOK() {
  if
  :: resident < MIN ->
     if
     :: atomic { !lk -> lk = 1 } INGEST()
     :: lk
     fi
  :: else
  fi;
  room = resident;
#ifdef M_BOOK_RACE
  seen = inserts;
  got = (seen + BLOCK <= MIN || room < MIN || BALANCE(samples, seen + BLOCK) >= -ERR);
  if
  :: got -> inserts = seen + BLOCK; booked = booked + BLOCK
  :: else
  fi;
#else
  /* One step, because an exchange that fails checks again with the value that it saw. */
  d_step {
    got = (inserts + BLOCK <= MIN || room < MIN || BALANCE(samples, inserts + BLOCK) >= -ERR);
    if
    :: got -> inserts = inserts + BLOCK; booked = booked + BLOCK
    :: else
    fi
  }
#endif
  if
  :: got ->
     mine = BLOCK;
#ifndef M_BOOK_NO_WAKE
     WAKE_SAMPLERS()
#endif
  :: else
  fi;
  d_step { room = 0; seen = 0 }
}

#define WRITERS_GATE \
  (inserts + BLOCK <= MIN || resident < MIN || BALANCE(samples, inserts + BLOCK) >= -ERR)

/* Models BookedInserts::wait. */
inline WAIT_FOR_INSERTS() {
  if
  :: standing[WRITERS] == 0 -> BOOK()
  :: else
  fi;
  if
  :: got
  :: else ->
     COME(WRITERS, letW[me]);
     do
     :: letW[me] -> break
     :: !letW[me] && !FIRST(WRITERS) -> break /* the buffer is closed */
     :: !letW[me] && FIRST(WRITERS) ->
#ifndef M_ROOM_REGISTER_LATE
        d_step { sleepsW[me] = 1; wokenW[me] = 0 }
#endif
        if
        :: shut -> break
        :: else
        fi;
        BOOK();
        if
        :: got -> break
        :: else
        fi;
#ifdef M_ROOM_REGISTER_LATE
        d_step { sleepsW[me] = 1; wokenW[me] = 0 }
#endif
        if
        :: wokenW[me]
#ifndef NO_POLL
        :: WRITERS_GATE
#endif
        fi
     od;
     skip;
     d_step {
       sleepsW[me] = 0; wokenW[me] = 0;
#ifndef M_TURN_KEPT
       REMOVE(WRITERS);
#endif
       j = got; /* 1: others stand in line behind the first; 2: one of them was let in */
       do
       :: j > 0 && standing[WRITERS] > 0 && WRITERS_GATE -> /* lets in the next in line */
          inserts = inserts + BLOCK; booked = booked + BLOCK;
          letW[line[WRITERS * N]] = 1;
          DROP(WRITERS, i);
          i = 0; j = 2
       :: else -> break
       od;
       i = 0; seen = j; j = 0
     }
     if
     :: seen == 2 -> WAKE_SAMPLERS()
     :: else
     fi;
     if
     :: seen > 0 -> WAKE_TURNS(WRITERS)
     :: else
     fi;
     d_step {
       seen = 0; got = 0;
       if
       :: letW[me] ->
#ifndef M_LET_IN_LOST
          mine = BLOCK;
#endif
          letW[me] = 0
       :: else
       fi
     }
  fi
}

proctype writer(byte me) {
  byte steps, mine, room, seen;
#ifdef LATE
  byte late;
#endif
  bit got;
  do
  :: steps == ROWS || shut -> break
  :: steps < ROWS && !shut ->
#ifdef DEATH
     if
     :: break
     :: skip
     fi;
#endif
     if
     :: mine == 0 -> WAIT_FOR_INSERTS()
     :: else
     fi;
     if
     :: mine == 0 -> break
     :: else
     fi;
     d_step {
       mine--; booked--; committed++; steps++;
#ifdef LATE
       if
       :: steps == 1 -> rung++
       :: else -> late++
       fi;
#else
       rung++;
#endif
       got = (rung == 1)
     }
     if
     :: got -> got = 0; WAKE_SAMPLERS()
     :: else
     fi
  od;
  skip; /* the loop must not jump into a d_step */
  /* Models WriterCore::~WriterCore. */
#ifdef LATE
  d_step { rung = rung + late; late = 0 }
  WAKE_SAMPLERS();
#endif
#ifndef M_BOOKED_LOST
  d_step { inserts = inserts - mine; booked = booked - mine; mine = 0 }
#else
  d_step { booked = booked - mine; mine = 0 }
#endif
  atomic { dead++; steps = 0; got = 0 }
}

/* Models Limiter::admit_samples. Sets got if the samples were admitted. */
inline ADMIT() {
  room = resident;
  if
  :: room < MIN -> got = 0
  :: else ->
#ifdef M_ADMIT_RACE
     seen = samples;
     got = (BALANCE(seen + BATCH, COUNTED_INSERTS) <= ERR);
     if
     :: got -> samples = seen + BATCH; counted = counted + BATCH
     :: else
     fi
#else
     d_step {
       got = (BALANCE(samples + BATCH, COUNTED_INSERTS) <= ERR);
       if
       :: got -> samples = samples + BATCH; counted = counted + BATCH
       :: else
       fi
     }
#endif
  fi;
  if
  :: got ->
#ifndef M_ADMIT_NO_WAKE
     WAKE_WRITERS()
#endif
  :: else
  fi;
  d_step { room = 0; seen = 0 }
}

/* Models the end of a sampler's turn, after its draw. */
inline LEAVE_SAMPLER() {
  d_step { REMOVE(SAMPLERS) }
  if
  :: got -> WAKE_TURNS(SAMPLERS)
  :: else
  fi;
  got = 0
}

proctype sampler(byte me) {
  byte batches, room, seen;
  bit got;
  do
  :: batches == BATCHES || shut -> break
  :: batches < BATCHES && !shut ->
     DRAIN();
     if
     :: standing[SAMPLERS] == 0 -> ADMIT()
     :: else
     fi;
     if
     :: got || shut
     :: else -> COME(SAMPLERS, 0)
     fi;
     do
     :: got || shut -> break
     :: !got && !shut ->
        d_step { sleepsS[me] = 1; wokenS[me] = 0 }
        DRAIN();
        if
        :: shut -> break
        :: else
        fi;
        ADMIT();
        if
        :: got
        :: else -> wokenS[me]
        fi;
        d_step { sleepsS[me] = 0; wokenS[me] = 0 }
     od;
     skip;
     d_step { sleepsS[me] = 0; wokenS[me] = 0 }
     if
     :: got
     :: else -> break
     fi;
#ifdef NOTHING
     if
     :: atomic { !undone -> undone = 1 }
        d_step { samples = samples - BATCH; counted = counted - BATCH }
#ifndef M_TAKE_BACK_NO_WAKE
        WAKE_SAMPLERS()
#endif
     :: skip
     fi;
#endif
     LEAVE_SAMPLER();
     batches++
  od;
  skip;
  LEAVE_SAMPLER();
  atomic { served++; batches = 0; got = 0 }
}

/* Called when no thread can move: each one that waits has to have a reason, and the two gates must not
 * wait for each other. */
inline CHECK_STANDSTILL() {
  d_step {
    assert(inserts == committed + booked);
    assert(samples == counted);
    if
    :: served < NS -> /* a sampler waits: all writers have ended, and the samplers' gate is shut */
       assert(dead == NW && rung == 0);
       assert(resident < MIN || BALANCE(samples + BATCH, inserts) > ERR)
    :: else
    fi;
    if
    :: dead < NW -> /* a writer waits: all samplers have ended, and the writers' gate is shut */
       assert(served == NS && resident >= MIN);
       assert(BALANCE(samples, inserts + BLOCK) < -ERR)
    :: else
    fi
  }
}

init {
  byte n;
  atomic {
    for (n : 0 .. NW - 1) { run writer(n) }
    for (n : 0 .. NS - 1) { run sampler(n) }
    n = 0
  }
#ifndef CLOSE_ANY
  timeout;
  CHECK_STANDSTILL();
#endif
  shut = 1;
  CLOSE_WAKE();
  (dead == NW && served == NS);
  assert(inserts == committed && booked == 0 && samples == counted)
}
