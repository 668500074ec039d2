package ivsim.twin;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HexFormat;

/**
 * Folds streams that another program makes up: a line of words in, a line of figures out.
 *
 * <p>"epoch/sequence/received/bytes" goes into the current piece; "(" begins a piece, ")" merges it into the one below
 * it, "]" merges that one into it.
 */
public final class FoldRunner {
    private FoldRunner() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(figures(run(line)));
        }
    }

    private static Twin run(String line) {
        Deque<Twin> pieces = new ArrayDeque<>();
        pieces.push(new Twin());
        long place = 0;
        for (String word : line.split(" ")) {
            switch (word) {
                case "(" -> pieces.push(new Twin());
                case ")", "]" -> {
                    Twin top = pieces.pop();
                    Twin below = pieces.pop();
                    pieces.push(word.equals(")") ? Streams.merged(below, top) : Streams.merged(top, below));
                }
                default -> {
                    String[] n = word.split("/");
                    byte[] head = (n[0] + "/" + n[1]).getBytes(StandardCharsets.US_ASCII);
                    pieces.peek().add(new Message(
                            Long.parseLong(n[0]), Long.parseLong(n[1]), Long.parseLong(n[2]), Twin.NONE, 0, place++,
                            Twin.NONE, head, new byte[Integer.parseInt(n[3])]));
                }
            }
        }
        return pieces.pop();
    }

    private static String figures(Twin twin) {
        return String.join(
                " ",
                new String(twin.head, StandardCharsets.US_ASCII).replace('/', ' '),
                Long.toString(twin.messages),
                Long.toString(twin.duplicates()),
                Long.toString(twin.gaps()),
                Long.toString(twin.givenUp()),
                Long.toString(twin.firstReceived),
                Long.toString(twin.lastReceived),
                Long.toString(twin.payloadBytes()),
                HexFormat.of().formatHex(Streams.comparable(twin)));
    }
}
