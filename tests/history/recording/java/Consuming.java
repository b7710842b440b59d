import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer of Kafka's own; each argument but the last is a setting, the last one names its topics. */
public final class Consuming {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (int i = 0; i < arguments.length - 1; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        ConcurrentLinkedQueue<String> orders = new ConcurrentLinkedQueue<>();
        Thread reader = new Thread(() -> read(orders));
        reader.setDaemon(true);
        reader.start();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Arrays.asList(arguments[arguments.length - 1].split(",")));
            System.out.println("ready");
            while (true) {
                consumer.poll(Duration.ofMillis(50));
                String order = orders.poll();
                if (order == null) {
                    continue;
                }
                if (order.equals("close")) {
                    break;
                }
                if (order.equals("rejoin")) {
                    consumer.enforceRebalance("the recording wants it");
                } else if (order.startsWith("work ")) {
                    Thread.sleep(Long.parseLong(order.substring("work ".length())));
                } else {
                    consumer.subscribe(Arrays.asList(order.substring("subscribe ".length()).split(",")));
                }
            }
        }
        System.out.println("closed");
    }

    private static void read(ConcurrentLinkedQueue<String> orders) {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                orders.add(line);
            }
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        Runtime.getRuntime().halt(1);
    }
}
