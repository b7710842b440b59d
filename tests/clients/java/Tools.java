import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command line tools, many in one process. A line of input is a tool's class, what is on its standard input
 * and its arguments, separated by tabs; a form feed stands for the end of a line. The answer is
 * the exit status, or "hangs", a tab, and all that the tool wrote, in one line likewise.
 */
public class Tools {
    private static final long PATIENCE_MS = Long.getLong("patience.ms", 30_000);

    private static final AtomicReference<Integer> STATUS = new AtomicReference<>();

    private static final class Exited extends Error {
        private Exited(int status) {
            super("exit status " + status);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Exit.Procedure exit = (status, message) -> {
            // some tools take what is thrown here for a failure, and exit once more
            STATUS.compareAndSet(null, status);
            throw new Exited(status);
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = Arrays.stream(line.split("\t", -1)).map(Tools::unescaped).toArray(String[]::new);
            var written = new ByteArrayOutputStream();
            var output = new PrintStream(written, true, StandardCharsets.UTF_8);
            String status = run(words, output);
            output.flush();
            answers.println(status + "\t" + escaped(written.toString(StandardCharsets.UTF_8)));
        }
    }

    private static String run(String[] words, PrintStream output) throws Exception {
        PrintStream out = System.out;
        PrintStream err = System.err;
        InputStream in = System.in;
        System.setOut(output);
        System.setErr(output);
        System.setIn(new ByteArrayInputStream(words[1].getBytes(StandardCharsets.UTF_8)));
        try {
            STATUS.set(null);
            var main = Class.forName(words[0]).getMethod("main", String[].class);
            String[] arguments = Arrays.copyOfRange(words, 2, words.length);
            var thread = new Thread(() -> {
                try {
                    main.invoke(null, (Object) arguments);
                } catch (InvocationTargetException failure) {
                    if (!(failure.getCause() instanceof Exited)) {
                        failure.getCause().printStackTrace(output);
                        STATUS.compareAndSet(null, 1);
                    }
                } catch (IllegalAccessException failure) {
                    throw new IllegalStateException(failure);
                }
            });
            thread.setDaemon(true);
            thread.start();
            thread.join(PATIENCE_MS);
            if (thread.isAlive()) {
                for (StackTraceElement each : thread.getStackTrace()) {
                    output.println("at " + each);
                }
                thread.interrupt();
                return "hangs";
            }
            STATUS.compareAndSet(null, 0);
            return STATUS.get().toString();
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
    }

    private static String escaped(String text) {
        return text.replace("\r", "").replace("\n", "\f");
    }

    private static String unescaped(String text) {
        return text.replace("\f", "\n");
    }
}
