import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;

/** Writes and reads the user data of Kafka's own sticky assignors; one question a line, one answer a line. */
public class StickyUserData {
    static class OpenSticky extends StickyAssignor {
        MemberData read(Subscription subscription) {
            return memberData(subscription);
        }
    }

    static class OpenCooperative extends CooperativeStickyAssignor {
        MemberData read(Subscription subscription) {
            return memberData(subscription);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(answer(words));
            System.out.flush();
        }
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "write-sticky": {
                StickyAssignor assignor = new StickyAssignor();
                assignor.onAssignment(assignment(words[2]), group(words[1]));
                return hex(assignor.subscriptionUserData(Set.of()));
            }
            case "write-cooperative": {
                CooperativeStickyAssignor assignor = new CooperativeStickyAssignor();
                if (!words[1].isEmpty()) assignor.onAssignment(assignment(""), group(words[1]));
                return hex(assignor.subscriptionUserData(Set.of()));
            }
            case "read-sticky": {
                var data = new OpenSticky().read(subscription(words[1]));
                return describe(data.generation, data.partitions);
            }
            default: {
                var data = new OpenCooperative().read(subscription(words[1]));
                return describe(data.generation, data.partitions);
            }
        }
    }

    private static Subscription subscription(String hex) {
        ByteBuffer bytes = hex.equals("null") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        return new Subscription(List.of(), bytes);
    }

    private static ConsumerGroupMetadata group(String generation) {
        return new ConsumerGroupMetadata("group", Integer.parseInt(generation), "member", Optional.empty());
    }

    private static Assignment assignment(String text) {
        List<TopicPartition> partitions = new ArrayList<>();
        if (!text.isEmpty()) {
            for (String each : text.split(",")) {
                int colon = each.lastIndexOf(':');
                int number = Integer.parseInt(each.substring(colon + 1));
                partitions.add(new TopicPartition(each.substring(0, colon), number));
            }
        }
        return new Assignment(partitions);
    }

    private static String hex(ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return HexFormat.of().formatHex(copy);
    }

    private static String describe(Optional<Integer> generation, List<TopicPartition> partitions) {
        StringJoiner text = new StringJoiner(",");
        for (TopicPartition each : partitions) text.add(each.topic() + ":" + each.partition());
        return generation.map(String::valueOf).orElse("none") + " " + text;
    }
}
