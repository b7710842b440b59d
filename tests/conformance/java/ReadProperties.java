import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;

/** Loads each line of input, base64 of a text in UTF-8, as properties; answers keys and values, or "error". */
public class ReadProperties {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            var text = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            System.out.println(answer(text));
        }
    }

    private static String answer(String text) throws Exception {
        var properties = new Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException wrong) {
            return "error";
        }
        List<String> words = new ArrayList<>();
        for (String name : properties.stringPropertyNames()) {
            for (String each : List.of(name, properties.getProperty(name))) {
                words.add('"' + Base64.getEncoder().encodeToString(each.getBytes(StandardCharsets.UTF_8)) + '"');
            }
        }
        return "[" + String.join(",", words) + "]";
    }
}
