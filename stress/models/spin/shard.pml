/* Models src/storage and src/shard. The caller has these variables for scratch: s and d (shards), e
 * (chunk), w (word), p (published), n (count). The caller holds the lock where the library's does. */

inline LOCK(s) { atomic { !lk[s] -> lk[s] = 1 } }

/* Checks I5 and the shard's invariants, which hold whenever a lock is released, and releases it. */
inline UNLOCK(s) {
  d_step {
    k = 0; m = 0;
    for (i : 0 .. NC - 1) {
      for (j : ing[i] .. pub[i] - 1) { k = k + !((mark[i] >> j) & 1) }
      if
      :: SHARD(i) == s ->
         assert(des[i] <= ing[i] && !(closed[i] && its[i] == 0));
         m = m + its[i]
      :: else
      fi
    }
    assert(items[s] == m);
    m = 0; j = 0;
    for (i : 0 .. NSH - 1) { m = m + items[i]; j = j + claim[i] }
    assert(committed == m + evicted + k);
    assert(resident + j == m);
    lk[s] = 0
  }
}

/* Models eviction by turns: Budget::publish_oldest (TELL), turn_after (STAMP), and turns of chunks. ARRIVE
 * notes in the ghosts that a step was announced. */
#ifdef FIFO
#define NEW_TURN(c) turn[c] = NO_TURN
#define KEEP_TURN(e) aged[e] = (its[e] == 0 -> turn[e] : aged[e])
#define TELL(s)                                    \
  oldest[s] = NO_TURN;                             \
  if                                               \
  :: nempty(order[s]) ->                           \
     order[s]?<m>;                                 \
     oldest[s] = aged[m]                           \
  :: empty(order[s])                               \
  fi
#define STAMP()                                    \
  d_step {                                         \
    k = (turn[c] == NO_TURN); turn[c] = next_turn; \
    next_turn = next_turn + k                      \
  }
#define ARRIVE() born[c * K + r - 1] = arrived; arrived++
#else
#define NEW_TURN(c) skip
#define KEEP_TURN(e) skip
#define TELL(s) skip
#define ARRIVE() skip
#endif

/* Models Event::wake_registered. */
inline WAKE_REGISTERED() {
  d_step {
    k = 0;
    for (i : 0 .. NS - 1) { k = k + registered[i] }
    for (i : 0 .. NS - 1) { woken[i] = woken[i] || k > 0 }
  }
}
inline WAKE_ALL() {
  d_step {
    for (i : 0 .. NS - 1) { woken[i] = 1 }
  }
}

/* Models the push of DoorbellList::ring. After a closing ring the writer must not use the chunk. */
inline PUSH_BELL(c, value) {
  d_step {
    assert(!listed[c] && !(freed[SHARD(c)] & BIT(c)));
    listed[c] = 1;
    nxt[c] = head[SHARD(c)];
    head[SHARD(c)] = c;
    own[c] = (value == CLOSED -> 0 : own[c]);
    ARRIVE()
  }
}

/* Models Backlog::take, which appends the whole list, reversed, to the backlog. */
inline TAKE_BELLS() {
  d_step {
    j = head[s];
    if
    :: j != NIL ->
       m = j; k = NIL;
       do
       :: j != NIL -> i = nxt[j]; nxt[j] = k; k = j; j = i
       :: else -> break
       od;
       if
#ifdef M_BACKLOG_DROPPED
       :: bl[s] = k
#else
       :: bl[s] == NIL -> bl[s] = k
       :: else -> nxt[blt[s]] = k
#endif
       fi;
       blt[s] = m;
       head[s] = NIL
    :: else
    fi
  }
}

/* Models Backlog::answer_oldest up to the exchange: it reads the link, then clears the bell. */
inline ANSWER() {
#if defined(M_LINK_LATE)
  d_step { e = bl[s]; listed[e] = 0; w = bell[e]; bell[e] = 0 }
  bl[s] = nxt[e];
#elif defined(M_CLEAR_LATE)
  d_step { e = bl[s]; listed[e] = 0; bl[s] = nxt[e]; nxt[e] = NIL; p = pub[e] }
  d_step { w = bell[e]; bell[e] = 0 }
#else
  d_step {
    e = bl[s]; listed[e] = 0; bl[s] = nxt[e]; nxt[e] = NIL;
    KEEP_TURN(e);
    w = bell[e]; bell[e] = 0
  }
#endif
}

/* Models LockedShard::retire up to the fetch_or. w is the number of pins, for FREE_IF. Call it inside a
 * d_step. */
inline RETIRE() {
  assert(own[e] == 0 && !listed[e]);
#ifndef M_GEN_LATE
  gen[e]++;
#endif
  ing[e] = 0; des[e] = 0; its[e] = 0; closed[e] = 0; cur[e] = 0;
#ifndef M_OLD_TURN
  NEW_TURN(e);
#endif
#ifndef M_RESET_LATE
  pub[e] = 0;
#endif
  p = 1;
#ifdef M_FREE_PINNED
  w = 0;
#elif defined(M_RETIRE_NEITHER)
  w = pins[e];
#elif defined(M_RETIRE_BOTH)
  ret[e] = 1;
#else
  ret[e] = 1; w = pins[e];
#endif
}

/* Models Shard::free_chunk. */
inline FREE(c) {
  d_step {
    assert(!(freed[SHARD(c)] & BIT(c)) && own[c] == 0);
    pins[c] = 0; ret[c] = 0; written[c] = 0; mark[c] = 0;
    freed[SHARD(c)] = freed[SHARD(c)] | BIT(c)
  }
#ifdef M_GEN_LATE
  gen[c]++;
#endif
#ifdef M_RESET_LATE
  pub[c] = 0;
#endif
}

/* Frees e if RETIRE has retired it, which p tells, and nobody pins it. */
inline FREE_IF() {
  if
  :: p ->
#ifdef M_RETIRE_NEITHER
     ret[e] = 1;
#endif
#ifdef M_RETIRE_BOTH
     w = pins[e];
#endif
     if
     :: w == 0 -> FREE(e)
     :: else
     fi
  :: else
  fi;
  d_step { e = 0; w = 0; p = 0 }
}

/* Models the read of `published` and LockedShard::ingest_chunk. */
inline TAKE_OVER() {
  d_step {
#ifndef M_CLEAR_LATE
    p = pub[e];
#endif
#if !defined(M_LINK_LATE) && !defined(M_BACKLOG_DROPPED)
    if
    :: bl[s] == NIL -> blt[s] = NIL
    :: else
    fi;
#endif
    assert(p >= ing[e] && p <= K && !closed[e]);
    if
    :: p > ing[e] ->
       k = 0;
       for (j : ing[e] .. p - 1) { k = k + !((mark[e] >> j) & 1) }
       if
       :: its[e] == 0 ->
          des[e] = ing[e];
          if
          :: k > 0 ->
             order[s]!e;
             TELL(s)
          :: else
          fi
       :: else
       fi;
       ing[e] = p; its[e] = its[e] + k; items[s] = items[s] + k; resident = resident + k;
       assert(resident <= CAP + K + NSH * K)
    :: else
    fi;
#if defined(M_CLOSE_BY_PUBLISHED)
    closed[e] = (p == K);
#elif defined(M_CLOSE_BY_FLAG)
    closed[e] = cur[e];
#else
    closed[e] = (w == CLOSED);
#endif
    p = 0; w = 0;
    if
    :: closed[e] && its[e] == 0 -> RETIRE()
    :: else
    fi
  }
  FREE_IF()
}

/* Models Shard::deselect of the oldest chunk. */
inline DESELECT() {
  d_step {
    assert(nempty(order[s]));
    order[s]?<e>;
    m = (claim[s] < its[e] -> claim[s] : its[e]);
    claim[s] = claim[s] - m; items[s] = items[s] - m; evicted = evicted + m; its[e] = its[e] - m;
    j = des[e];
    do
    :: m == 0 -> break
    :: else ->
       if
       :: (mark[e] >> j) & 1
       :: else ->
          m--;
          for (i : 0 .. NS - 1) { gone[i] = gone[i] || (has[i] && kc[i] == e && kx[i] == j) }
       fi;
       j++
    od;
    des[e] = (its[e] == 0 -> ing[e] : j);
    k = 0;
    for (i : 0 .. NSH - 1) { k = k + items[i] }
    assert(k >= CAP);
    p = 0; w = 0;
    if
    :: its[e] > 0
#ifdef M_EMPTIED_STAYS
    :: its[e] == 0 && !closed[e]
    :: its[e] == 0 && closed[e] ->
#else
    :: else ->
#endif
       order[s]?_;
#ifndef M_TOLD_KEPT
       TELL(s);
#endif
#if defined(M_RETIRE_OPEN)
       RETIRE()
#else
       if
#if defined(M_PEEK_CLOSED)
       :: closed[e] || bell[e] == CLOSED -> RETIRE()
#else
       :: closed[e] -> RETIRE()
#endif
       :: else
       fi
#endif
    fi
  }
  FREE_IF()
}

/* Models Victims::next. CAN_EVICT(n): whether shard n may evict. HAS_VICTIM(n): whether it may evict
 * in place of other shards whose locks are taken. MOST: how many items of chunk e may be evicted. */
#define SINCE(q, n) (oldest[q] + NSH >= oldest[n])
#if NSH > 2
#define AMONG_OLDEST(n) (SINCE(0, n) && SINCE(1, n) && SINCE(2, n))
#define NOBODY_CAN_EVICT !CAN_EVICT(0) && !CAN_EVICT(1) && !CAN_EVICT(2)
#define ROOMS :: ROOM_IN(0) :: ROOM_IN(1) :: ROOM_IN(2)
#elif NSH > 1
#define AMONG_OLDEST(n) (SINCE(0, n) && SINCE(1, n))
#define NOBODY_CAN_EVICT !CAN_EVICT(0) && !CAN_EVICT(1)
#define ROOMS :: ROOM_IN(0) :: ROOM_IN(1)
#else
#define AMONG_OLDEST(n) SINCE(0, n)
#define NOBODY_CAN_EVICT !CAN_EVICT(0)
#define ROOMS :: ROOM_IN(0)
#endif
#if defined(FIFO) && !defined(M_BY_SHARE)
#define HAS_VICTIM(n) (resident > CAP && oldest[n] != NO_TURN)
#define CAN_EVICT(n) (HAS_VICTIM(n) && AMONG_OLDEST(n))
#define MOST its[e]
#else
#define HAS_VICTIM(n) (resident > CAP && items[n] > SHARE(n))
#define CAN_EVICT(n) HAS_VICTIM(n)
#define MOST (its[e] < items[s] - SHARE(s) -> its[e] : items[s] - SHARE(s))
#endif

/* Models LockedShard::evict. */
#define EVICTS(others_busy) (CAN_EVICT(s) || (others_busy && HAS_VICTIM(s)))
inline EVICT(others_busy) {
  if
  :: EVICTS(others_busy) ->
     do
     :: EVICTS(others_busy) ->
#ifdef M_CLAIM_TWICE
        w = resident - CAP;
        d_step {
          order[s]?<e>; assert(its[e] > 0);
          m = (w < MOST -> w : MOST);
          w = 0;
#else
        d_step {
          order[s]?<e>; assert(its[e] > 0);
          m = (resident > CAP -> resident - CAP : 0);
          m = (m < MOST -> m : MOST);
#endif
#ifdef FIFO
          passed = passed + (others_busy && !AMONG_OLDEST(s) -> m : 0);
#endif
#ifndef M_CLAIM_KEPT
          resident = resident - m;
#endif
          claim[s] = m;
          e = 0
        }
        if
        :: claim[s] > 0 -> DESELECT()
        :: else -> break
        fi
     :: else -> break
     od
  :: else
  fi
}

/* Models ShardSet::make_room with any order of shards. MAKE_ROOM may end when `otherwise` is true. */
#define ROOM_IN(n) atomic { CAN_EVICT(n) && !lk[n] -> s = n; lk[n] = 1 } EVICT(0); UNLOCK(s)
#define MAKE_ROOM(otherwise) do ROOMS :: otherwise -> break od

/* Models LockedShard::ingest, which stops while there are too many items, until other shards evict. */
#ifdef M_NO_STOP
#define MAY_INGEST true
#else
#define MAY_INGEST (resident <= CAP + K)
#endif
inline INGEST(bound) {
  TAKE_BELLS();
  EVICT(0);
  n = bound;
  do
  :: n > 0 && bl[s] != NIL && MAY_INGEST ->
     n--;
     ANSWER();
     TAKE_OVER();
     if
     :: !MAY_INGEST -> EVICT(0)
     :: else
     fi
  :: else -> break
  od;
  n = 0;
  EVICT(0)
}

/* Models BufferCore::ingest_pending, which may skip a shard, because its hints may be stale. */
inline INGEST_PENDING() {
  for (d : 0 .. NSH - 1) {
    if
    :: head[d] != NIL || bl[d] != NIL -> s = d; LOCK(s); INGEST(BOUND); UNLOCK(s)
    :: skip
    fi;
    MAKE_ROOM(NOBODY_CAN_EVICT)
  }
  atomic { s = 0; d = 0 }
}

/* Models ShardSet::drain. */
inline DRAIN() {
  for (d : 0 .. NSH - 1) {
    do
    :: s = d; LOCK(s); INGEST(BOUND);
       w = (bl[s] != NIL);
       UNLOCK(s);
       if
#ifndef M_BOUNDED_DRAIN
       :: w ->
          w = 0;
#ifndef M_STOP_KEPT
          MAKE_ROOM(NOBODY_CAN_EVICT);
#endif
          (MAY_INGEST || CAN_EVICT(d)) /* without this wait the loop might never end */
#endif
       :: else -> break
       fi
    od;
    w = 0
  }
  MAKE_ROOM(NOBODY_CAN_EVICT);
  atomic { s = 0; d = 0 }
}
