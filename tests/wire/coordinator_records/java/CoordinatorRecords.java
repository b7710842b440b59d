import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Writes coordinators' records with Kafka's generated classes, and prints them with its formatters.
 *
 * {"record": "OffsetCommitValue", "version": 4, "fields": {}}  ->  {"hex": "", "json": ""} or "refused"
 * {"format": "OffsetsMessageFormatter", "key": hex or null, "value": hex or null}  ->  the text, or null
 */
public class CoordinatorRecords {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            out.println(question.has("record") ? write(question) : format(question));
        }
    }

    private static String write(JsonNode question) throws Exception {
        String name = question.get("record").asText();
        short version = (short) question.get("version").asInt();
        String place = name.startsWith("TransactionLog") ? "transaction" : "group";
        Class<?> converter = Class.forName(
            "org.apache.kafka.coordinator." + place + ".generated." + name + "JsonConverter");
        Class<?> type = Class.forName("org.apache.kafka.coordinator." + place + ".generated." + name);
        try {
            ApiMessage message = (ApiMessage) converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, question.get("fields"), version);
            byte[] bytes = name.endsWith("Key") ? MessageUtil.toCoordinatorTypePrefixedBytes(message)
                : MessageUtil.toVersionPrefixedBytes(version, message);
            JsonNode shown = (JsonNode) converter.getMethod("write", type, short.class)
                .invoke(null, message, version);
            ObjectNode answer = JSON.createObjectNode();
            answer.put("hex", HexFormat.of().formatHex(bytes));
            answer.put("json", shown.toString());
            return answer.toString();
        } catch (InvocationTargetException | UnsupportedVersionException refused) {
            // something that is not in this version: the converter says so, or the writer
            return "\"refused\"";
        }
    }

    private static String format(JsonNode question) throws Exception {
        try (MessageFormatter formatter = (MessageFormatter) Class.forName(
                "org.apache.kafka.tools.consumer." + question.get("format").asText())
                .getDeclaredConstructor().newInstance()) {
            formatter.configure(Map.of());
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            formatter.writeTo(
                new ConsumerRecord<>("t", 0, 0, data(question.get("key")), data(question.get("value"))),
                new PrintStream(text, true, StandardCharsets.UTF_8));
            return text.size() == 0 ? "null" : JSON.writeValueAsString(text.toString(StandardCharsets.UTF_8));
        }
    }

    private static byte[] data(JsonNode hex) {
        return hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }
}
