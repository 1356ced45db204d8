/* Models the life of a chunk and of its bell: the chunk is written, rung for, ingested, drawn from,
 * deselected, retired, freed and written again. Samplers sleep, writers die, hang or hand over, and
 * close() comes. Memory is sequentially consistent here; ../relacy checks the memory orders.
 *
 * Actions between which another thread can see a difference are separate steps here. What a thread
 * does to memory that no other may touch at that moment is merged into the step before or after it.
 *
 * Sizes    NSH shards of CPS chunks of K rows, NW writers of ROWS commits, NS samplers of BATCHES
 *          draws, CAP items of capacity, MIN items to sample, BOUND chunks that one ingest answers.
 * Options  DEATH     a writer may be destroyed before any commit and hands its chunk over
 *          FINAL     an episode's end publishes a final row, which is no item
 *          TURN      a writer may close a chunk early, with nothing new to announce
 *          FIFO      shards with the oldest chunks evict (I13); without it, those over their share.
 *                    Not with FINAL or TURN
 *          HANG      one writer stops for ever, before a publish, a ring or a push
 *          CLOSE_ANY close() may come at any moment; otherwise it comes when nobody else can move,
 *                    so that it rescues nobody
 *          M_...     one rule broken; mutants.txt says which, and in which configuration it is found
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

/* The words of Chunk, which writers, samplers and the lock holder share: published rows, bell, link,
 * cursor and pins. */
byte pub[NC], bell[NC], nxt[NC], cur[NC], pins[NC];
bit ret[NC];   /* retired; in one word with pins */
byte mark[NC]; /* bit r: row r is no item */
/* ChunkState, which only the lock holder uses: ingested rows, deselected rows, items, generation. */
byte ing[NC], des[NC], its[NC], gen[NC];
bit closed[NC];
#ifdef FIFO
byte turn[NC], aged[NC]; /* turn of the chunk's last push; turn that its eviction goes by */
#endif

/* Members of Shard: the lock, the lists of chunks, and counts. */
bit lk[NSH];
byte head[NSH], bl[NSH], blt[NSH];   /* head of the doorbell list; first and last of the backlog */
byte freed[NSH], open[NSH];          /* the free and the open list, as sets */
byte touched[NSH], items[NSH];       /* chunks that were ever used; items */
chan order[NSH] = [CPS] of { byte }; /* chunks in their eviction order */

/* Members of the buffer. */
byte resident; /* count of Budget */
bit shut;
bit registered[NS], woken[NS];
#ifdef FIFO
byte next_turn, oldest[NSH]; /* of Budget: the next turn; the turn of each shard's oldest chunk */
#endif

/* Ghosts: variables of the checks, which the library does not have. */
byte own[NC];     /* 1 + the writer that may write to the chunk; 0: none */
byte written[NC]; /* bit r: row r is complete */
bit listed[NC];   /* the chunk is in the doorbell list or the backlog */
byte claim[NSH];  /* items taken off the budget and not yet deselected */
byte committed, evicted, dead, served, hung;
bit has[NS], gone[NS], gath[NS]; /* the sampler has a key; its item was evicted; its row is read */
byte kc[NS], kx[NS];             /* chunk and row of that key */
#ifdef FIFO
byte born[NC * K], arrived; /* steps announced before each row; all steps announced */
byte passed;                /* items evicted before older ones, whose shards were locked */
#endif

hidden byte i, j, k, m; /* used only within one d_step */

#include "shard.pml"
#include "writer.pml"
#include "sampler.pml"

/* Called when no thread can move: the state has to be a legal end. */
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

/* Checks I2, I5, and that the capacity is exact, once no call is under way and all is ingested. */
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
      /* A chunk is free, never used, handed over, the hung writer's, or closed with items: not lost. */
      assert((freed[SHARD(i)] & BIT(i)) || i % CPS >= touched[SHARD(i)] || (open[SHARD(i)] & BIT(i)) ||
             own[i] || (closed[i] && its[i] > 0));
      assert(!own[i] || own[i] == hung);
      assert(!(freed[SHARD(i)] & BIT(i)) || !(open[SHARD(i)] & BIT(i)) && its[i] == 0 && ing[i] == 0);
    }
    assert(resident == (m < CAP -> m : CAP));
#ifdef FIFO
    /* I13. n_step is 1, so no step is open; each other writer may stop between its turn and its push. */
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
