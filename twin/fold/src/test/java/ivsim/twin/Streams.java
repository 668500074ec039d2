package ivsim.twin;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Streams of one vehicle's messages, as tests write them. */
final class Streams {
    private static final int PAYLOAD_BYTES = 100;

    private Streams() {}

    /**
     * Return the messages of a text in order, taken at 1, 2, 3, ... ns from one partition.
     *
     * <p>Its words are "epoch/sequence", "epoch/first..last", with ":step", or with "!n": without the multiples of n.
     */
    static List<Message> parse(String text) {
        List<Message> messages = new ArrayList<>();
        for (String word : text.split(" ")) {
            String[] sides = word.split("/");
            String[] run = sides[1].split("\\.\\.|[:!]");
            long first = Long.parseLong(run[0]);
            long last = run.length > 1 ? Long.parseLong(run[1]) : first;
            boolean skips = sides[1].contains("!");
            long number = run.length > 2 ? Long.parseLong(run[2]) : 1;
            long step = skips ? 1 : number;
            for (long s = first; step > 0 ? s <= last : s >= last; s += step) {
                if (!skips || s % number != 0) {
                    messages.add(message(Long.parseLong(sides[0]), s, messages.size(), PAYLOAD_BYTES));
                }
            }
        }
        return messages;
    }

    /** Return the message at a place of a stream: its stamp is one more. */
    static Message message(long epoch, long sequence, long place, int payloadBytes) {
        byte[] head = (epoch + "/" + sequence).getBytes(StandardCharsets.US_ASCII);
        return new Message(epoch, sequence, place + 1, Twin.NONE, 0, place, Twin.NONE, head, new byte[payloadBytes]);
    }

    /** Fold messages one after the other, through the stored form each time. */
    static Twin fold(List<Message> messages) {
        Twin twin = new Twin();
        for (Message message : messages) {
            twin = Twin.of(twin.bytes());
            twin.add(message);
        }
        return twin;
    }

    static Twin merged(Twin one, Twin other) {
        return Twin.merged(Twin.of(one.bytes()), Twin.of(other.bytes()));
    }

    /** Return the stored form without what depends on the cuts by design: the twin before its newest piece. */
    static byte[] comparable(Twin twin) {
        Twin copy = Twin.of(twin.bytes());
        copy.sampledBefore = Twin.NONE;
        copy.receivedBefore = 0;
        copy.gapsBefore = 0;
        return copy.bytes();
    }
}
