import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Answers questions on Kafka's wire format with Kafka's own generated classes, one JSON object per line.
 *
 * {"message": "HeartbeatRequest", "version": 4, "newest": 4, "fields": {...}, "tags": {"7": "00ff"}}
 *   ->  the bytes in hex; "unsupported" where Kafka refuses to write the fields; "unreadable" where Kafka's
 *       JSON converters cannot build the message, as it mixes structs of versions that exclude each other;
 *       "unknown" where this release does not have the version
 * {"headers": 12}   ->  per stable version: header version of the request / of the response
 * {"errors": true}  ->  per error code: number, name, retriable
 */
public class WireBytes {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String PACKAGE = "org.apache.kafka.common.message.";

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            if (question.has("headers")) {
                out.println(headers(ApiMessageType.fromApiKey((short) question.get("headers").asInt())));
            } else if (question.has("errors")) {
                out.println(errors());
            } else {
                out.println(bytes(question));
            }
        }
        out.flush();
    }

    private static String bytes(JsonNode question) throws Exception {
        short version = (short) question.get("version").asInt();
        Class<?> converter = Class.forName(PACKAGE + question.get("message").asText() + "DataJsonConverter");
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        Class<?> data = Class.forName(PACKAGE + question.get("message").asText() + "Data");
        short newest = ((Message) data.getConstructor().newInstance()).highestSupportedVersion();
        if (version > newest) {
            return "unknown";
        }
        newest = (short) Math.min(newest, question.path("newest").asInt(version));
        Message message = null;
        // a converter only reads structs that its version has; some are in the newest version alone
        for (short readable : new short[] {version, newest}) {
            try {
                message = (Message) read.invoke(null, question.get("fields"), readable);
                break;
            } catch (InvocationTargetException problem) {
                if (!(problem.getCause() instanceof UnsupportedVersionException)) {
                    throw new IllegalArgumentException(question.toString(), problem.getCause());
                }
            }
        }
        if (message == null) {
            return "unreadable";
        }
        List<RawTaggedField> unknown = message.unknownTaggedFields();
        if (question.has("tags")) {
            question.get("tags").fields().forEachRemaining(tag -> unknown.add(new RawTaggedField(
                Integer.parseInt(tag.getKey()), HexFormat.of().parseHex(tag.getValue().asText()))));
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        try {
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            if (buffer.hasRemaining()) {
                throw new IllegalStateException("fewer bytes than announced: " + question);
            }
            return HexFormat.of().formatHex(buffer.array());
        } catch (UnsupportedVersionException | NullPointerException problem) {
            return "unsupported";
        }
    }

    private static String headers(ApiMessageType type) {
        StringBuilder text = new StringBuilder();
        for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(false); v++) {
            text.append(v).append(':').append(type.requestHeaderVersion(v)).append('/')
                .append(type.responseHeaderVersion(v)).append(' ');
        }
        return text.toString().trim();
    }

    private static String errors() {
        StringBuilder text = new StringBuilder();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            text.append(error.code()).append(' ').append(error.name()).append(' ').append(retriable).append(';');
        }
        return text.toString();
    }
}
