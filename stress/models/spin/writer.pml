/* Models src/writer/writer_core.cpp and open_chunk.cpp, with n_step 1 and no limiter. */

#ifdef HANG
#define MAY_HANG                          \
  if                                      \
  :: atomic { !hung -> hung = me + 1; goto hang } \
  :: skip                                 \
  fi
#else
#define MAY_HANG skip
#endif

#define OWNS(c) (own[c] == me + 1)

/* Writes a whole row, whose old contents no sampler may be reading (I1). Call it inside a d_step. */
inline WRITE_ROW() {
  assert(OWNS(c));
  for (i : 0 .. NS - 1) { assert(!(gath[i] && kc[i] == c && kx[i] == r)) }
  written[c] = written[c] | BIT(r)
}

/* Models OpenChunk::announce without the publish. */
inline RING(value) {
  MAY_HANG;
#ifdef M_CLOSE_BY_FLAG
  cur[c] = (value == CLOSED);
#endif
#ifdef M_PUSH_FIRST
  w = bell[c];
  if
  :: w == 0 -> PUSH_BELL(c, RUNG)
  :: else
  fi;
  d_step { assert(OWNS(c)); bell[c] = value; own[c] = (value == CLOSED -> 0 : own[c]) }
#else
  d_step {
    assert(OWNS(c));
    w = bell[c]; bell[c] = value;
    own[c] = (value == CLOSED && w -> 0 : own[c]);
    if
    :: w -> ARRIVE()
    :: else
    fi
  }
#endif
  if
  :: w == 0 ->
     MAY_HANG;
#ifdef M_WAKE_EARLY
     WAKE_REGISTERED();
#endif
#if defined(FIFO) && !defined(M_NO_STAMP)
     STAMP();
#endif
#ifndef M_PUSH_FIRST
     PUSH_BELL(c, value);
#endif
#if !defined(M_NO_LOOK) && !defined(M_WAKE_EARLY)
     WAKE_REGISTERED();
#endif
     w = 0
  :: else -> w = 0
  fi
}

/* Sets c to the chunk with the lowest number in a list of shard s. Call it inside an atomic. */
inline POP(list) {
  d_step {
    c = s * CPS;
    do
    :: list & BIT(c) -> break
    :: else -> c++
    od;
    list = list & ~BIT(c);
    assert(own[c] == 0 && bell[c] != CLOSED && !ret[c]);
    own[c] = me + 1
  }
}
inline POP_FREE() {
  POP(freed[s]);
  assert(pub[c] == 0 && ing[c] == 0 && bell[c] == 0 && pins[c] == 0)
}
inline TAKE_FRESH() {
#ifdef M_FRESH_TWICE
  c = touched[s];
  d_step { touched[s] = c + 1; c = s * CPS + c; assert(own[c] == 0); own[c] = me + 1 }
#else
  d_step { c = s * CPS + touched[s]; touched[s]++; assert(own[c] == 0); own[c] = me + 1 }
#endif
}

#define CAN_HELP(n) (!lk[n] && (head[n] != NIL || bl[n] != NIL && MAY_INGEST || HAS_VICTIM(n)))
#define OPEN(n) atomic { open[n] -> s = n; POP(open[s]) }
#define FREE_ONE(n) atomic { freed[n] -> s = n; POP_FREE() }
#ifdef M_FRESH_TWICE
#define FRESH(n) touched[n] < CPS -> s = n; TAKE_FRESH()
#else
#define FRESH(n) atomic { touched[n] < CPS -> s = n; TAKE_FRESH() }
#endif
/* Models ShardSet::help_ingest: a shard evicts in place of others whose locks are taken. */
#define HELP(n)                                                                       \
  atomic { CAN_HELP(n) -> s = n; lk[n] = 1 } INGEST(BOUND); UNLOCK(s);                \
  MAKE_ROOM(else);                                                                    \
  if                                                                                  \
  :: atomic { HAS_VICTIM(n) && !lk[n] -> s = n; lk[n] = 1 } EVICT(1); UNLOCK(s)       \
  :: else                                                                             \
  fi

/* Models OpenChunk::wait, with any order of shards and of sources of chunks. Blocking here stands for
 * a pause followed by another try. */
inline TAKE_CHUNK() {
  do
  :: OPEN(0); break
  :: FREE_ONE(0); break
  :: FRESH(0); break
  :: HELP(0)
#if NSH > 1
  :: OPEN(1); break
  :: FREE_ONE(1); break
  :: FRESH(1); break
  :: HELP(1)
#endif
#if NSH > 2
  :: OPEN(2); break
  :: FREE_ONE(2); break
  :: FRESH(2); break
  :: HELP(2)
#endif
  :: shut -> break
  od;
  skip; /* the loop must not jump into a d_step */
  d_step {
    s = 0;
    if
    :: c != NIL -> r = cur[c]
    :: else
    fi
  }
}

proctype writer(byte me) {
  byte c = NIL, r, steps, s, e, w, p, n;
  do
  :: steps == ROWS || shut -> break
  :: steps < ROWS && !shut ->
     if
     :: c == NIL -> TAKE_CHUNK()
     :: else
     fi;
     if
     :: c == NIL -> break
     :: else
     fi;
#ifdef DEATH
     if
     :: break
     :: skip
     fi;
#endif
     MAY_HANG;
#if defined(M_PUBLISH_EARLY)
     d_step { assert(OWNS(c)); pub[c] = r + 1; committed++ }
     d_step { WRITE_ROW() }
#elif defined(M_RING_EARLY)
     if
     :: r + 1 < K -> RING(RUNG); d_step { WRITE_ROW(); pub[c] = r + 1; committed++ }
     :: else -> d_step { WRITE_ROW(); pub[c] = r + 1; committed++ }
     fi;
#else
     d_step { WRITE_ROW(); pub[c] = r + 1; committed++ }
#endif
     d_step { r++; steps++ }
     if
     :: r == K -> RING(CLOSED); d_step { c = NIL; r = 0 }
#ifdef M_RING_EARLY
     :: r < K
#else
     :: r < K -> RING(RUNG)
#endif
#ifdef TURN
     :: r < K -> RING(RUNG); RING(CLOSED); d_step { c = NIL; r = 0 }
#endif
     fi
  od;

  /* Models WriterCore::~WriterCore. */
  if
  :: c != NIL ->
#if defined(M_HAND_OVER_FIRST)
     d_step { cur[c] = r; open[SHARD(c)] = open[SHARD(c)] | BIT(c); own[c] = 0 }
#endif
#ifdef FINAL
     if
     :: r > 0 && r < K ->
        d_step {
          WRITE_ROW();
          mark[c] = mark[c] | BIT(r);
          r++;
          pub[c] = r
        }
        if
#ifdef M_DEATH_SILENT
        :: r == K -> c = NIL
#else
        :: r == K -> RING(CLOSED); c = NIL
#endif
        :: r < K -> RING(RUNG)
        fi
     :: else
     fi;
#endif
#if !defined(M_HAND_OVER_FIRST) && !defined(M_DEATH_KEEPS)
     if
     :: c != NIL ->
#ifdef M_CURSOR_LATE
        d_step { open[SHARD(c)] = open[SHARD(c)] | BIT(c); own[c] = 0 }
        cur[c] = r
#else
        d_step { cur[c] = r; open[SHARD(c)] = open[SHARD(c)] | BIT(c); own[c] = 0 }
#endif
     :: else
     fi
#endif
  :: else
  fi;
  atomic { dead++; c = NIL; r = 0; steps = 0 }
#ifdef HANG
  if
  :: false -> hang: atomic { steps = 0; w = 0 } end: false
  :: else
  fi
#endif
}
