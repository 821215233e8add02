package trirpc.test.peer;

import java.util.HashMap;
import java.util.Map;

/** Pairs of {@code --name value}. */
final class Arguments {
    private final Map<String, String> values = new HashMap<>();

    Arguments(String[] args) {
        for (int i = 0; i + 1 < args.length; i += 2) {
            values.put(args[i].substring(2), args[i + 1]);
        }
    }

    String get(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }
}
