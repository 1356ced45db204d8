/* The life of a chunk and of its bell, as built: written, rung for, ingested, drawn from, deselected,
 * retired, freed, written again; with sleeping samplers, writers that die, hang or hand over, and
 * close(). Memory is sequentially consistent here; ../relacy checks the memory orders.
 *
 * Every step that another thread can observe half done is a step here; what one thread does to
 * memory that nobody else may touch at that moment is merged into the step before or after it.
 *
 * Sizes    NSH shards of CPS chunks of K rows, NW writers of ROWS commits, NS samplers of BATCHES
 *          draws, CAP items resident, MIN items to sample, BOUND chunks that one ingest answers.
 * Options  DEATH     a writer may be destroyed before any commit and hands its chunk over
 *          FINAL     an episode's end publishes a final row, which is no item
 *          TURN      a writer may close a chunk early, with nothing new to announce
 *          FIFO      shards with the oldest chunks evict (I13), else those over their share; not
 *                    with FINAL or TURN
 *          HANG      one writer stops for ever: before a publish, before a ring, before a push
 *          CLOSE_ANY close() may come at any moment; otherwise it comes when nobody else can move,
 *                    so that it rescues nobody
 *          M_...     one rule broken; mutants.txt says which and in which configuration it dies
 */
#ifndef NSH
#define NSH 1
#endif
#ifndef CPS
#define CPS 3
#endif
#ifndef K
#define K 2
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
#define BATCHES 1
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef MIN
#define MIN 1
#endif
#ifndef BOUND
#define BOUND 9
#endif
#define NC (NSH * CPS)
#define NIL 255
#define NO_TURN 255
#define RUNG 1
#define CLOSED 3 /* kRung | kClosed */
#define BIT(n) (1 << (n))
#define SHARD(c) ((c) / CPS)
#define SHARE(s) (CAP / NSH + ((s) < CAP % NSH))

/* Chunk: the words that writers, samplers and the lock holder share. */
byte pub[NC], bell[NC], nxt[NC], cur[NC], pins[NC];
bit ret[NC];   /* one word with pins */
byte mark[NC]; /* bit r: row r is no item */
/* Chunk: what the lock holder knows (ChunkState). */
byte ing[NC], des[NC], its[NC], gen[NC];
bit closed[NC];
#ifdef FIFO
byte turn[NC], aged[NC]; /* of its bell; of its place in the order */
#endif

/* Shard. */
bit lk[NSH];
byte head[NSH], bl[NSH], blt[NSH]; /* doorbell list; backlog and its last */
byte freed[NSH], open[NSH];        /* free and open lists, as sets */
byte touched[NSH], items[NSH];
chan order[NSH] = [CPS] of { byte }; /* of eviction */

/* Buffer. */
byte resident; /* Budget */
bit shut;
bit registered[NS], woken[NS];
#ifdef FIFO
byte next_turn, oldest[NSH]; /* Budget */
#endif

/* Ghosts: nothing above depends on them. */
byte own[NC];     /* the writer that may touch the chunk, + 1 */
byte written[NC]; /* bit r: row r is complete */
bit listed[NC];   /* in the doorbell list or the backlog */
byte claim[NSH];  /* claimed off the budget, not yet deselected */
byte committed, evicted, dead, served, hung;
bit has[NS], gone[NS], gath[NS]; /* a key in hand; its item has left; its row is being read */
byte kc[NS], kx[NS];
#ifdef FIFO
byte born[NC * K], arrived; /* steps that were announced before the row; all of them */
byte passed;                /* items evicted before older ones, as those were locked */
#endif

hidden byte i, j, k, m; /* within one d_step only */

#include "shard.pml"
#include "writer.pml"
#include "sampler.pml"

/* Nobody can move: the state has to be a legal end. */
inline CHECK_STANDSTILL() {
  d_step {
    assert(dead + (hung > 0) == NW);
    if
    :: served < NS ->
       assert(resident < MIN);
       for (i : 0 .. NSH - 1) { assert(head[i] == NIL && bl[i] == NIL) }
    :: else
    fi
  }
}

/* No call in flight, everything ingested: I2, I5, and that the capacity is exact. */
inline CHECK_END() {
  d_step {
    m = committed;
    for (i : 0 .. NC - 1) {
      assert(pins[i] == 0 && !ret[i] && !listed[i]);
      if
      :: hung && own[i] == hung ->
         for (j : 1 .. pub[i] - ing[i]) { m-- }
      :: else ->
         assert(pub[i] == ing[i] && bell[i] == 0)
      fi;
      /* Not lost: free, never used, handed over, the hung writer's, or closed and with items. */
      assert((freed[SHARD(i)] & BIT(i)) || i % CPS >= touched[SHARD(i)] || (open[SHARD(i)] & BIT(i)) ||
             own[i] || (closed[i] && its[i] > 0));
      assert(!own[i] || own[i] == hung);
      assert(!(freed[SHARD(i)] & BIT(i)) || !(open[SHARD(i)] & BIT(i)) && its[i] == 0 && ing[i] == 0);
    }
    assert(resident == (m < CAP -> m : CAP));
#ifdef FIFO
    /* I13. Nothing is open here; other writers may have been stopped between turn and push. */
    for (i : 0 .. NC - 1) {
      for (j : des[i] .. ing[i] - 1) {
        assert(its[i] == 0 ||
               arrived - 1 - born[i * K + j] < CAP + (NSH + NW - 1) * K + passed)
      }
    }
#endif
  }
}

init {
  byte s, d, e, w, p, n;
  atomic {
    for (i : 0 .. NC - 1) { nxt[i] = NIL; NEW_TURN(i) }
    for (s : 0 .. NSH - 1) { head[s] = NIL; bl[s] = NIL; blt[s] = NIL; TELL(s) }
    for (n : 0 .. NW - 1) { run writer(n) }
    for (n : 0 .. NS - 1) { run sampler(n) }
    s = 0; n = 0
  }
#ifndef CLOSE_ANY
  timeout;
  CHECK_STANDSTILL();
#endif
#ifdef M_CLOSE_WAKES_FIRST
  WAKE_ALL(); shut = 1;
#else
  shut = 1; WAKE_ALL();
#endif
  (dead + (hung > 0) == NW && served == NS);
  DRAIN();
  CHECK_END()
}
