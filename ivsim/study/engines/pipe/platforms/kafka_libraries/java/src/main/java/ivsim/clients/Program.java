package ivsim.clients;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/**
 * A process of Java's own for the clients of one Python process: a connection for each end, a thread for each connection.
 *
 * <p>The first line of standard input is a secret that each connection begins with; its end is the program's. It prints
 * the port at which it listens. A command is a letter, a length and so many bytes; an answer a byte (0: done, 1: failed),
 * a length and so many bytes.
 */
public final class Program {
    private final DataInputStream in;
    private final DataOutputStream out;
    private FrameSender sender;
    private FrameReceiver receiver;

    private Program(Socket socket) throws IOException {
        in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16));
        out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream(), 1 << 16));
    }

    /** Listens until standard input ends. */
    public static void main(String[] arguments) throws IOException {
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        byte[] secret = told.readLine().getBytes(StandardCharsets.US_ASCII);
        ServerSocket server = new ServerSocket(0, 8, InetAddress.getLoopbackAddress());
        Thread listener = new Thread(() -> listen(server, secret), "listener");
        listener.setDaemon(true);
        listener.start();
        System.out.println(server.getLocalPort());
        while (told.readLine() != null) {
            continue;
        }
        Runtime.getRuntime().halt(0);
    }

    private static void listen(ServerSocket server, byte[] secret) {
        while (true) {
            try {
                Socket socket = server.accept();
                Thread thread = new Thread(() -> serve(socket, secret), "end");
                thread.setDaemon(true);
                thread.start();
            } catch (IOException error) {
                return;
            }
        }
    }

    private static void serve(Socket socket, byte[] secret) {
        try (socket) {
            socket.setTcpNoDelay(true);
            Program program = new Program(socket);
            byte[] said = new byte[secret.length];
            program.in.readFully(said);
            if (MessageDigest.isEqual(said, secret)) {
                program.obey();
            }
        } catch (IOException error) {
            return;
        }
    }

    private void obey() throws IOException {
        try {
            while (true) {
                byte command = in.readByte();
                byte[] with = new byte[in.readInt()];
                in.readFully(with);
                byte[] found;
                try {
                    found = answer((char) command, with);
                } catch (Exception error) {
                    reply(1, error.toString().getBytes(StandardCharsets.UTF_8));
                    continue;
                }
                reply(0, found);
            }
        } catch (EOFException over) {
            return;
        } finally {
            close();
        }
    }

    private void reply(int status, byte[] bytes) throws IOException {
        out.writeByte(status);
        out.writeInt(bytes.length);
        out.write(bytes);
        out.flush();
    }

    private byte[] answer(char command, byte[] with) throws Exception {
        ByteBuffer from = Frames.read(with);
        switch (command) {
            case 'S' -> sender = new FrameSender(text(from), text(from));
            case 's' -> sender.send(with);
            case 'a' -> {
                return sender.answers(from.getLong());
            }
            case 'f' -> sender.flush();
            case 'm' -> {
                double[] found = sender.counted();
                return Frames.make(16).putDouble(found[0]).putDouble(found[1]).array();
            }
            case 'R' -> {
                return opened(from);
            }
            case 'r' -> {
                return receiver.poll(from.getLong());
            }
            case 'k' -> receiver.commit(from.getInt(), from.getLong());
            case 'x' -> close();
            case 'P' -> {
                String properties = text(from);
                String topic = text(from);
                byte[][] keys = Frames.list(block(from));
                return nanoseconds(OwnLoops.produce(properties, topic, keys, Frames.list(block(from))));
            }
            case 'C' -> {
                String properties = text(from);
                String topic = text(from);
                return nanoseconds(OwnLoops.consume(properties, topic, from.getInt(), from.getLong(), from.getLong()));
            }
            default -> throw new IllegalArgumentException("no command " + command);
        }
        return new byte[0];
    }

    private byte[] opened(ByteBuffer from) {
        receiver = new FrameReceiver(text(from), text(from));
        boolean resumed = from.getInt() != 0;
        int[] partitions = Frames.ints(from, from.getInt());
        ByteBuffer to = Frames.make(8 * partitions.length);
        for (long begin : receiver.open(partitions, resumed)) {
            to.putLong(begin);
        }
        return to.array();
    }

    private static byte[] block(ByteBuffer from) {
        return Frames.bytes(from, from.getInt());
    }

    private static String text(ByteBuffer from) {
        return new String(block(from), StandardCharsets.UTF_8);
    }

    private static byte[] nanoseconds(long spent) {
        return Frames.make(8).putLong(spent).array();
    }

    private void close() {
        if (sender != null) {
            sender.close();
        }
        if (receiver != null) {
            receiver.close();
        }
        sender = null;
        receiver = null;
    }
}
