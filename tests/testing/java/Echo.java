import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Answers each line of its input with the same line in capital letters. */
public class Echo {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8);
        output.println("ready " + String.join(" ", arguments));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("fail")) {
                throw new IllegalStateException("asked to fail");
            }
            if (!line.equals("silence")) {
                output.println(line.toUpperCase(java.util.Locale.ROOT));
            }
        }
    }
}
