import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Times Kafka's StickyAssignor on a group in a file: arguments are the file, the number of rounds, and the CPU seconds for one. */
public class StickyTimes {
    private static final long SLOW = 5_000_000_000L;

    private static volatile long roundStart = Long.MAX_VALUE;

    /** Ends the process with status 3 once a round has taken this long. */
    private static void stopAfter(long nanoseconds) {
        long worker = Thread.currentThread().getId();
        Thread watch = new Thread(() -> {
            while (true) {
                long now = ManagementFactory.getThreadMXBean().getThreadCpuTime(worker);
                if (now - roundStart > nanoseconds) Runtime.getRuntime().halt(3);
                try {
                    Thread.sleep(200);
                } catch (InterruptedException error) {
                    return;
                }
            }
        });
        watch.setDaemon(true);
        watch.start();
    }

    public static void main(String[] args) throws Exception {
        List<String> names = new ArrayList<>();
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        Map<String, Subscription> members = new HashMap<>();
        Map<TopicPartition, String> owners = new HashMap<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] cells = line.split("\t", -1);
            if (cells[0].equals("topic")) {
                names.add(cells[1]);
                topics.put(cells[1], partitions(cells[1], Integer.parseInt(cells[2]), cells[3]));
                continue;
            }
            List<String> wanted = new ArrayList<>();
            for (String index : cells[3].split(",")) wanted.add(names.get(Integer.parseInt(index)));
            ByteBuffer claim = claim(cells[1], names, cells[4], owners);
            Optional<String> rack = cells[2].isEmpty() ? Optional.empty() : Optional.of(cells[2]);
            members.put(cells[1], new Subscription(wanted, claim, List.of(), 1, rack));
        }
        int rounds = Integer.parseInt(args[1]);
        long[] times = new long[rounds];
        Map<String, List<TopicPartition>> result = null;
        stopAfter(Long.parseLong(args[2]) * 1_000_000_000L);
        for (int round = -1; round < rounds; round++) {
            for (Subscription each : members.values()) {
                if (each.userData() != null) each.userData().rewind();
            }
            StickyAssignor assignor = new StickyAssignor();
            long start = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            roundStart = start;
            result = assignor.assignPartitions(topics, members);
            long took = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - start;
            if (round >= 0) times[round] = took;
            if (round < 0 && took > SLOW) {
                // Warm by then, and not worth more rounds.
                Arrays.fill(times, took);
                break;
            }
        }
        Arrays.sort(times);
        long squares = 0;
        int moves = 0;
        for (Map.Entry<String, List<TopicPartition>> each : result.entrySet()) {
            squares += (long) each.getValue().size() * each.getValue().size();
            for (TopicPartition partition : each.getValue()) {
                String owner = owners.get(partition);
                if (owner != null && !owner.equals(each.getKey())) moves++;
            }
        }
        System.out.println(times[rounds / 2] + " " + squares + " " + moves);
    }

    private static List<PartitionInfo> partitions(String topic, int count, String racks) {
        String[] each = racks.isEmpty() ? new String[0] : racks.split(",");
        List<PartitionInfo> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Node[] replicas = new Node[0];
            if (each.length > 0) {
                replicas = new Node[each[number].length()];
                for (int i = 0; i < replicas.length; i++) {
                    replicas[i] = new Node(i, "host", 1, each[number].substring(i, i + 1));
                }
            }
            found.add(new PartitionInfo(topic, number, null, replicas, replicas));
        }
        return found;
    }

    private static ByteBuffer claim(
            String member, List<String> names, String text, Map<TopicPartition, String> owners) {
        if (text.isEmpty()) return null;
        String[] parts = text.split(";");
        ByteBuffer bytes = ByteBuffer.allocate(8 + text.length() * 16 + parts.length * 64);
        bytes.putInt(parts.length);
        for (String part : parts) {
            int colon = part.indexOf(':');
            String topic = names.get(Integer.parseInt(part.substring(0, colon)));
            String[] numbers = part.substring(colon + 1).split(",");
            byte[] name = topic.getBytes(StandardCharsets.UTF_8);
            bytes.putShort((short) name.length).put(name).putInt(numbers.length);
            for (String number : numbers) {
                bytes.putInt(Integer.parseInt(number));
                owners.put(new TopicPartition(topic, Integer.parseInt(number)), member);
            }
        }
        bytes.putInt(1).flip();
        return bytes;
    }
}
