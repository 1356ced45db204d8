/* Models src/sampler/sampler_core.cpp and src/buffer/update.cpp, with batches of one item. */

/* Models SamplerCore::wait, which returns once MIN items are resident or the buffer is closed. */
inline WAIT_FOR_ITEMS() {
  INGEST_PENDING();
  do
  :: shut || resident >= MIN -> break
  :: else ->
#ifndef M_REGISTER_LATE
     d_step { registered[me] = 1; woken[me] = 0 }
#endif
#ifndef M_NO_RECHECK
     DRAIN();
#endif
     if
     :: shut || resident >= MIN
     :: else ->
#ifdef M_REGISTER_LATE
        d_step { registered[me] = 1; woken[me] = 0 }
#endif
        woken[me]
     fi;
     d_step { registered[me] = 0; woken[me] = 0 }
     INGEST_PENDING()
  od
}

#define PICK(number) :: SHARD(number) == s && its[number] > 0 -> c = number

/* Models Shard::draw and pin: draws the first or last item of any chunk of the shard that has items. */
inline DRAW() {
  atomic {
    if
    PICK(0)
#if NC > 1
    PICK(1)
#endif
#if NC > 2
    PICK(2)
#endif
#if NC > 3
    PICK(3)
#endif
#if NC > 4
    PICK(4)
#endif
#if NC > 5
    PICK(5)
#endif
    fi;
    d_step {
      x = des[c];
      do
      :: (mark[c] >> x) & 1 -> x++
      :: else -> break
      od
    }
    if
    :: its[c] > 1 ->
       d_step {
         x = ing[c] - 1;
         do
         :: (mark[c] >> x) & 1 -> x--
         :: else -> break
         od
       }
    :: true
    fi;
    d_step {
      g = gen[c];
      kc[me] = c; kx[me] = x; has[me] = 1; gone[me] = 0; gath[me] = 1;
#ifndef M_PIN_LATE
      pins[c]++
#endif
    }
  }
}

/* Models Shard::unpin. */
inline UNPIN() {
#ifdef M_RETIRE_BOTH
  d_step { gath[me] = 0; pins[c]--; w = (pins[c] == 0) }
  w = w && ret[c];
#else
  d_step { gath[me] = 0; pins[c]--; w = (pins[c] == 0 && ret[c]) }
#endif
  if
  :: w -> w = 0; FREE(c)
  :: else
  fi
}

/* Models Shard::update of one key, which has to apply if and only if its item was not evicted. Call it
 * inside a d_step. */
inline UPDATE() {
  p = x >= des[c] && x < ing[c] && gen[c] == g && !((mark[c] >> x) & 1);
#ifdef M_NO_GENERATION
  p = x >= des[c] && x < ing[c] && !((mark[c] >> x) & 1);
#endif
#ifdef M_NO_DESELECTED
  p = x < ing[c] && gen[c] == g && !((mark[c] >> x) & 1);
#endif
  assert(p == !gone[me]);
  p = 0; g = 0; c = 0; x = 0;
  has[me] = 0; gone[me] = 0; kc[me] = 0; kx[me] = 0
}

proctype sampler(byte me) {
  byte c, x, g, batches, s, d, e, w, p, n;
  do
  :: batches == BATCHES || shut -> break
  :: batches < BATCHES && !shut ->
     WAIT_FOR_ITEMS();
     if
     :: resident >= MIN -> skip
     :: else -> break
     fi;
     if
     :: items[0] > 0 -> s = 0
#if NSH > 1
     :: items[1] > 0 -> s = 1
#endif
#if NSH > 2
     :: items[2] > 0 -> s = 2
#endif
     :: else
     fi;
     LOCK(s);
     if
     :: items[s] > 0 -> DRAW()
     :: else
     fi;
     UNLOCK(s);
     s = 0;
     if
     :: has[me] ->
#ifdef M_PIN_LATE
        pins[c]++;
#endif
        assert((written[c] >> x) & 1); /* the gather reads a whole row */
        UNPIN();
#ifndef NO_UPDATE
        INGEST_PENDING();
        s = SHARD(c);
        LOCK(s);
        d_step { UPDATE() }
        UNLOCK(s);
        s = 0
#else
        d_step { c = 0; x = 0; g = 0; has[me] = 0; gone[me] = 0; kc[me] = 0; kx[me] = 0 }
#endif
     :: else
     fi;
     batches++
  od;
  atomic { served++; batches = 0 }
}
