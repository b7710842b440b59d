import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a share group (KIP-932); each argument but the last is a setting, the last one names its topics. */
public final class Sharing {
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
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
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
                consumer.subscribe(Arrays.asList(order.substring("subscribe ".length()).split(",")));
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
