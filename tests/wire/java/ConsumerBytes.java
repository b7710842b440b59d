import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/**
 * Writes and reads the messages of consumers with Kafka's ConsumerProtocol, one JSON object per line.
 *
 * {"version": 3, "subscription": {"topics": [], "user_data": "00", "owned": [["t", 0]], "generation": 1,
 *  "rack": null}}                                                       ->  hex
 * {"version": 3, "assignment": {"partitions": [["t", 0]], "user_data": null}}   ->  hex
 * {"read_subscription": "hex"}, {"read_assignment": "hex"}   ->  the fields as above, or "refused"
 */
public class ConsumerBytes {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            short version = (short) question.path("version").asInt();
            if (question.has("subscription")) {
                out.println(hex(ConsumerProtocol.serializeSubscription(
                    subscription(question.get("subscription")), version)));
            } else if (question.has("assignment")) {
                JsonNode asked = question.get("assignment");
                out.println(hex(ConsumerProtocol.serializeAssignment(
                    new Assignment(partitions(asked.get("partitions")), data(asked.get("user_data"))), version)));
            } else {
                out.println(read(question));
            }
        }
    }

    private static Subscription subscription(JsonNode asked) {
        return new Subscription(
            new ArrayList<>(Arrays.asList(JSON.convertValue(asked.get("topics"), String[].class))),
            data(asked.get("user_data")), partitions(asked.get("owned")), asked.get("generation").asInt(),
            Optional.ofNullable(asked.get("rack").textValue()));
    }

    private static String read(JsonNode question) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        try {
            if (question.has("read_subscription")) {
                Subscription read = ConsumerProtocol.deserializeSubscription(
                    data(question.get("read_subscription")));
                answer.set("topics", JSON.valueToTree(read.topics()));
                answer.put("user_data", hex(read.userData()));
                answer.set("owned", list(read.ownedPartitions()));
                answer.put("generation", read.generationId().orElse(-1));
                answer.put("rack", read.rackId().orElse(null));
            } else {
                Assignment read = ConsumerProtocol.deserializeAssignment(data(question.get("read_assignment")));
                answer.set("partitions", list(read.partitions()));
                answer.put("user_data", hex(read.userData()));
            }
        } catch (RuntimeException refused) {
            return "\"refused\"";
        }
        return JSON.writeValueAsString(answer);
    }

    private static ByteBuffer data(JsonNode hex) {
        return hex.isNull() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(hex.asText()));
    }

    private static String hex(ByteBuffer data) {
        if (data == null) {
            return null;
        }
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static List<TopicPartition> partitions(JsonNode listed) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode each : listed) {
            partitions.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt()));
        }
        return partitions;
    }

    private static ArrayNode list(List<TopicPartition> partitions) {
        ArrayNode list = JSON.createArrayNode();
        for (TopicPartition each : partitions) {
            list.addArray().add(each.topic()).add(each.partition());
        }
        return list;
    }
}
