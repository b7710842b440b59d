import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumers of Kafka's own client, each on a thread. Arguments: bootstrap servers, group id and topic. It tells "ready", reads "start N" and "stop N", and tells "assigned NANOS N PARTITIONS", "revoked ..." and "stopped N": nanoseconds
 * of the machine's monotonic clock, partitions with commas.
 */
public class ConsumerFleet {
    private static String[] arguments;
    private static final Map<String, Member> members = new ConcurrentHashMap<>();

    private static class Member extends Thread implements ConsumerRebalanceListener {
        private final String number;
        volatile boolean running = true;

        Member(String number) {
            this.number = number;
        }

        private void tell(String what, Collection<TopicPartition> partitions) {
            long now = System.nanoTime();
            StringBuilder text = new StringBuilder();
            for (TopicPartition each : partitions)
                text.append(text.length() == 0 ? "" : ",").append(each.partition());
            say(what + " " + now + " " + number + " " + text);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions);
        }

        @Override
        public void run() {
            Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0],
                "group.id", arguments[1],
                "group.protocol", "consumer",
                "auto.offset.reset", "earliest");
            var bytes = new ByteArrayDeserializer();
            try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
                consumer.subscribe(List.of(arguments[2]), this);
                while (running)
                    consumer.poll(Duration.ofMillis(100));
            }
            say("stopped " + number);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }

    public static void main(String[] given) throws Exception {
        arguments = given;
        Class.forName("org.apache.kafka.clients.consumer.internals.AsyncKafkaConsumer");
        say("ready");
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                Member member = new Member(words[1]);
                members.put(words[1], member);
                member.start();
            } else {
                members.remove(words[1]).running = false;
            }
        }
        System.exit(0);
    }
}
