import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of groups that a test steers line by line, beside members of other clients. Its argument: bootstrap servers. A line of
 * input is "member join NAME PROTOCOL TOPIC GROUP", "member owned NAME", answered with partitions and commas between them or "-",
 * or "member leave NAME".
 */
public class Members {
    private static final class Member extends Thread {
        private final KafkaConsumer<String, String> consumer;
        private volatile Set<Integer> owned = Set.of();
        private volatile boolean leaves;

        private Member(KafkaConsumer<String, String> consumer) {
            this.consumer = consumer;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (consumer) {
                while (!leaves) {
                    consumer.poll(Duration.ofMillis(20));
                    owned = consumer.assignment().stream().map(TopicPartition::partition)
                        .collect(Collectors.toCollection(TreeSet::new));
                }
            }
        }
    }

    private static final Map<String, Member> MEMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String said = "ok";
            switch (words[1]) {
                case "join" -> join(arguments[0], words[2], words[3], words[4], words[5]);
                case "owned" -> {
                    var owned = MEMBERS.get(words[2]).owned;
                    said = owned.isEmpty() ? "-" : owned.stream().map(String::valueOf).collect(Collectors.joining(","));
                }
                case "leave" -> {
                    var member = MEMBERS.remove(words[2]);
                    member.leaves = true;
                    member.join();
                }
                default -> said = "failed: there is no step " + words[1];
            }
            System.out.println(said);
        }
    }

    private static void join(String servers, String name, String protocol, String topic, String group) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", servers, "group.id", group, "group.protocol", protocol, "client.id", name,
            "auto.offset.reset", "earliest", "enable.auto.commit", false, "metadata.max.age.ms", 500));
        if (protocol.equals("classic")) {
            settings.putAll(Map.of("session.timeout.ms", 30_000, "heartbeat.interval.ms", 200,
                "partition.assignment.strategy", RangeAssignor.class.getName()));
        }
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        var member = new Member(consumer);
        MEMBERS.put(name, member);
        member.start();
    }
}
