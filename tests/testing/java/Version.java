import org.apache.kafka.common.utils.AppInfoParser;

/** Says which kafka-clients it runs with. */
public class Version {
    public static void main(String[] arguments) {
        System.out.println(AppInfoParser.getVersion());
    }
}
