package ivsim.twin;

/**
 * One bit for each of {@link #WINDOW} consecutive sequences; sequence {@code s} has bit {@code s mod WINDOW}.
 *
 * <p>A window that moves up needs no shift: the places of the sequences that leave it are those of the ones that enter.
 */
final class SequenceBits {
    /** Sequences that one window holds: at 10 messages a second nearly seven minutes. A power of two. */
    static final int WINDOW = 4_096;

    static final int WORDS = WINDOW / Long.SIZE;

    private SequenceBits() {}

    static boolean has(long[] bits, long sequence) {
        int at = (int) (sequence & (WINDOW - 1));
        return (bits[at >>> 6] & 1L << at) != 0;
    }

    static void set(long[] bits, long sequence) {
        int at = (int) (sequence & (WINDOW - 1));
        bits[at >>> 6] |= 1L << at;
    }

    /** Give the bits of {@code first..last} (inclusive; none where first > last) one value; at most a window of them. */
    static void fill(long[] bits, long first, long last, boolean value) {
        long left = Math.min(last - first + 1, WINDOW);
        int at = (int) (first & (WINDOW - 1));
        while (left > 0) {
            int shift = at & 63;
            int count = (int) Math.min(left, 64 - shift);
            long mask = -1L >>> (64 - count) << shift;
            if (value) {
                bits[at >>> 6] |= mask;
            } else {
                bits[at >>> 6] &= ~mask;
            }
            left -= count;
            at = (at + count) & (WINDOW - 1);
        }
    }

    /** Return how many of {@code first..last}, at most a window of them, are set in both. */
    static long inBoth(long[] left, long[] right, long first, long last) {
        long[] wanted = new long[WORDS];
        fill(wanted, first, last, true);
        long sum = 0;
        for (int i = 0; i < WORDS; i++) {
            sum += Long.bitCount(left[i] & right[i] & wanted[i]);
        }
        return sum;
    }

    static long count(long[] bits) {
        long sum = 0;
        for (long word : bits) {
            sum += Long.bitCount(word);
        }
        return sum;
    }
}
