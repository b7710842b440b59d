import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of the consumer protocol of Kafka's own client. Arguments: bootstrap servers, group id, topic. It tells
 * "owns 0,1" and "record PARTITION OFFSET", polls until its input has a line or ends, then leaves and tells "left".
 */
public class NewProtocolPeer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[1],
            "group.protocol", "consumer",
            "auto.commit.interval.ms", 200,
            "auto.offset.reset", "earliest");
        var bytes = new ByteArrayDeserializer();
        Set<TopicPartition> owned = Set.of();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[2]));
            System.out.println("ready");
            while (System.in.available() == 0) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(50))) {
                    System.out.println("record " + each.partition() + " " + each.offset());
                }
                if (!consumer.assignment().equals(owned)) {
                    owned = Set.copyOf(consumer.assignment());
                    System.out.println("owns " + owned.stream().map(each -> "" + each.partition())
                        .collect(Collectors.joining(",")));
                }
            }
        }
        System.out.println("left");
    }
}
