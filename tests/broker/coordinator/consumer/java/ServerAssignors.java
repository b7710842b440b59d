import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Shares partitions out with the assignors of Kafka's group coordinator, one JSON object per line.
 *
 * {"assignor": "uniform", "homogeneous": true, "topics": [["t", high, low, partitions]],
 *  "members": [{"id": "m", "instance": null, "topics": ["t"], "target": [["t", [0, 1]]]}], "new": null}
 *   ->  {"m": [["t", [0, 1]]]}: every member, its topics and partitions in the order that a record has them in
 * members are given in the order in which they came into the group, "new" is one that is not in the group yet
 */
public class ServerAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(new Question(JSON.readTree(line)).answer()));
        }
    }

    private static class Question implements TopicIds.TopicResolver, SubscribedTopicDescriber {
        private final JsonNode question;
        private final Map<String, Uuid> ids = new HashMap<>();
        private final Map<Uuid, String> names = new HashMap<>();
        private final Map<Uuid, Integer> counts = new HashMap<>();

        Question(JsonNode question) {
            this.question = question;
            for (JsonNode topic : question.get("topics")) {
                Uuid id = new Uuid(topic.get(1).asLong(), topic.get(2).asLong());
                ids.put(topic.get(0).asText(), id);
                names.put(id, topic.get(0).asText());
                counts.put(id, topic.get(3).asInt());
            }
        }

        ObjectNode answer() {
            TimelineHashMap<String, MemberSubscriptionAndAssignmentImpl> table =
                new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
            Map<String, MemberSubscriptionAndAssignmentImpl> late = new HashMap<>();
            Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
            String newest = question.get("new").textValue();
            for (JsonNode member : question.get("members")) {
                String id = member.get("id").asText();
                Assignment target = target(member.get("target"));
                Set<String> topics = new HashSet<>(strings(member.get("topics")));
                target.partitions().forEach((topic, partitions) -> partitions.forEach(partition ->
                    owners.computeIfAbsent(topic, key -> new HashMap<>()).put(partition, id)));
                (id.equals(newest) ? late : table).put(id, new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), Optional.ofNullable(member.get("instance").textValue()),
                    new TopicIds(topics, this), target));
            }
            Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
            table.forEach(members::put);
            late.forEach(members::put);
            SubscriptionType type = question.get("homogeneous").asBoolean()
                ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
            ConsumerGroupPartitionAssignor assignor = question.get("assignor").asText().equals("range")
                ? new RangeAssignor() : new UniformAssignor();
            return written(assignor.assign(
                new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners), this));
        }

        private ObjectNode written(GroupAssignment made) {
            ObjectNode answer = JSON.createObjectNode();
            made.members().forEach((member, share) -> {
                ArrayNode topics = answer.putArray(member);
                share.partitions().forEach((id, partitions) -> {
                    ArrayNode listed = topics.addArray().add(names.get(id)).addArray();
                    partitions.forEach(listed::add);
                });
            });
            return answer;
        }

        private Assignment target(JsonNode target) {
            ConsumerGroupTargetAssignmentMemberValue value = new ConsumerGroupTargetAssignmentMemberValue();
            for (JsonNode topic : target) {
                List<Integer> partitions = new ArrayList<>();
                topic.get(1).forEach(each -> partitions.add(each.asInt()));
                value.topicPartitions().add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(ids.get(topic.get(0).asText())).setPartitions(partitions));
            }
            return Assignment.fromRecord(value);
        }

        private static List<String> strings(JsonNode list) {
            List<String> made = new ArrayList<>();
            list.forEach(each -> made.add(each.asText()));
            return made;
        }

        public int numPartitions(Uuid id) {
            return counts.getOrDefault(id, -1);
        }

        public Set<String> racksForPartition(Uuid id, int partition) {
            return Set.of();
        }

        public CoordinatorMetadataImage image() {
            return null;
        }

        public String name(Uuid id) {
            return names.get(id);
        }

        public Uuid id(String name) {
            return ids.get(name);
        }

        public void clear() {
        }
    }
}
