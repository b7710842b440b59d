import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Shares partitions out with Kafka's own assignors, one JSON object per line.
 *
 * {"assignor": "range", "topics": {"t": [["rack of a replica", null, ...], ...]},
 *  "members": [{"id": "m", "topics": ["t"], "instance": null, "rack": null}]}
 *   ->  {"m": [["t", 0], ...]}: every member, its partitions in the order that Kafka lists them in
 * with "rounds": n   ->  the CPU nanoseconds of each of n calls
 * with "data" in a member   ->  its user data, in hexadecimal
 * with "lists": [["t"]]   ->  a number in place of a member's topics is the place of its list in there
 */
public class KafkaAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            ConsumerPartitionAssignor assignor = assignor(question.get("assignor").asText());
            Cluster cluster = cluster(question.get("topics"));
            Map<String, Subscription> members = members(question);
            if (question.has("rounds")) {
                ArrayNode times = JSON.createArrayNode();
                for (int round = 0; round < question.get("rounds").asInt(); round++) {
                    rewind(members);
                    long start = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
                    assignor.assign(cluster, new GroupSubscription(members));
                    times.add(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - start);
                }
                out.println(JSON.writeValueAsString(times));
            } else {
                out.println(JSON.writeValueAsString(
                    answer(assignor.assign(cluster, new GroupSubscription(members)))));
            }
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    /** Makes user data readable once more, as assignors read it where it stands. */
    private static void rewind(Map<String, Subscription> members) {
        for (Subscription each : members.values()) {
            if (each.userData() != null) each.userData().rewind();
        }
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        Node leader = new Node(0, "localhost", 9092);
        nodes.put("the leader", leader);
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            // a number in place of the racks: as many partitions, of which no racks are known
            int count = topic.getValue().isInt() ? topic.getValue().asInt() : topic.getValue().size();
            for (int partition = 0; partition < count; partition++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : topic.getValue().path(partition)) {
                    String name = rack.isNull() ? null : rack.asText();
                    replicas.add(nodes.computeIfAbsent(String.valueOf(name),
                        key -> new Node(nodes.size() + 1, "localhost", 9092, name)));
                }
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), partition, leader, array, array));
            }
        });
        Set<String> none = Collections.emptySet();
        return new Cluster("cluster", nodes.values(), partitions, none, none);
    }

    private static Map<String, Subscription> members(JsonNode question) {
        List<List<String>> lists = new ArrayList<>();
        question.path("lists").forEach(list -> lists.add(strings(list)));
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            JsonNode wanted = member.get("topics");
            List<String> topics = wanted.isInt() ? lists.get(wanted.asInt()) : strings(wanted);
            String data = member.path("data").textValue();
            ByteBuffer userData = data == null ? null : ByteBuffer.wrap(HexFormat.of().parseHex(data));
            Subscription subscription = new Subscription(topics, userData, Collections.emptyList(), -1,
                Optional.ofNullable(member.path("rack").textValue()));
            subscription.setGroupInstanceId(Optional.ofNullable(member.path("instance").textValue()));
            subscriptions.put(member.get("id").asText(), subscription);
        }
        return subscriptions;
    }

    private static List<String> strings(JsonNode list) {
        return Arrays.asList(JSON.convertValue(list, String[].class));
    }

    private static ObjectNode answer(GroupAssignment plan) {
        ObjectNode answer = JSON.createObjectNode();
        plan.groupAssignment().forEach((member, assignment) -> {
            ArrayNode partitions = answer.putArray(member);
            for (TopicPartition partition : assignment.partitions()) {
                partitions.addArray().add(partition.topic()).add(partition.partition());
            }
        });
        return answer;
    }
}
