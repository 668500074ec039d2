package ivsim.clients;

import java.io.IOException;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Properties;

/** Columns of records in bytes, little-endian, as {@code frames.py} writes and reads them. */
final class Frames {
    private Frames() {
    }

    static ByteBuffer read(byte[] frame) {
        return ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
    }

    static ByteBuffer make(int size) {
        return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    }

    static int[] ints(ByteBuffer from, int count) {
        int[] found = new int[count];
        from.asIntBuffer().get(found);
        from.position(from.position() + 4 * count);
        return found;
    }

    static long[] longs(ByteBuffer from, int count) {
        long[] found = new long[count];
        from.asLongBuffer().get(found);
        from.position(from.position() + 8 * count);
        return found;
    }

    /** The next bytes; null for a length below 0. */
    static byte[] bytes(ByteBuffer from, int length) {
        if (length < 0) {
            return null;
        }
        byte[] found = new byte[length];
        from.get(found);
        return found;
    }

    /** Count, lengths and bytes. */
    static byte[][] list(byte[] frame) {
        ByteBuffer from = read(frame);
        int[] lengths = ints(from, from.getInt());
        byte[][] found = new byte[lengths.length][];
        for (int i = 0; i < lengths.length; i++) {
            found[i] = bytes(from, lengths[i]);
        }
        return found;
    }

    static Properties properties(String lines) {
        Properties found = new Properties();
        try {
            found.load(new StringReader(lines));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return found;
    }
}
