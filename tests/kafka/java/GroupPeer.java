import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer of Kafka's own client. Arguments: bootstrap servers, group id, topic, class of the assignor.
 * It polls until its input has a line or ends, then leaves and tells "left".
 */
public class GroupPeer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[1],
            "partition.assignment.strategy", arguments[3],
            "session.timeout.ms", 30_000,
            "heartbeat.interval.ms", 200,
            "auto.offset.reset", "earliest");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[2]));
            System.out.println("ready");
            while (System.in.available() == 0) {
                consumer.poll(Duration.ofMillis(50));
            }
        }
        System.out.println("left");
    }
}
