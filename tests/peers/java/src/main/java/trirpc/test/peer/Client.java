package trirpc.test.peer;

import static trirpc.test.peer.Peer.OVER_LIMIT;
import static trirpc.test.peer.Peer.check;
import static trirpc.test.peer.Peer.ended;
import static trirpc.test.peer.Peer.fails;
import static trirpc.test.peer.Peer.same;
import static trirpc.test.peer.Peer.sleep;
import static trirpc.test.peer.Peer.status;
import static trirpc.test.peer.Peer.text;
import static trirpc.test.peer.Peer.zeros;

import com.google.protobuf.Any;
import io.grpc.health.v1.Health;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthCheckResponse;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.rpc.RpcContext;
import trirpc.test.peer.Peer.Sink;
import trirpc.test.v1.CollectReply;
import trirpc.test.v1.Echo;
import trirpc.test.v1.ExpandRequest;
import trirpc.test.v1.FailDetail;
import trirpc.test.v1.FailRequest;
import trirpc.test.v1.MetaReply;
import trirpc.test.v1.MetaRequest;
import trirpc.test.v1.SayReply;
import trirpc.test.v1.SayRequest;

/**
 * Runs every case with dubbo-java: Client --addr HOST:PORT [--server NAME] [--only PREFIX]. One line a case:
 * {@code PASS name}, {@code PASS name (what dubbo-java does otherwise)} or {@code FAIL name: why}.
 */
public final class Client {
    /** What dubbo-java's environment has to say for requests to be compressed. */
    private static final String COMPRESSOR = "DUBBO_RPC_TRI_COMPRESSOR";

    interface Case {
        /** What the peer does otherwise, or null. */
        String run(Peer peer) throws Exception;
    }

    private static final Map<String, Case> CASES = new LinkedHashMap<>();

    static {
        CASES.put("unary", Client::unary);
        CASES.put("message-of-0-bytes", Client::messageOf0Bytes);
        CASES.put("message-of-1-byte", peer -> peer.payload(1));
        CASES.put("message-of-64-kib", peer -> peer.payload(64 << 10));
        CASES.put("message-of-3900000-bytes", peer -> peer.payload(3_900_000));
        CASES.put("request-over-limit", Client::requestOverLimit);
        CASES.put("reply-over-limit", Client::replyOverLimit);
        CASES.put("client-stream", Client::clientStream);
        CASES.put("client-stream-of-none", Client::clientStreamOfNone);
        CASES.put("client-stream-of-1000", Client::clientStreamOf1000);
        CASES.put("server-stream", Client::serverStream);
        CASES.put("server-stream-of-none", peer -> none(peer.expand(ExpandRequest.newBuilder())));
        CASES.put("server-stream-of-1000", Client::serverStreamOf1000);
        CASES.put("server-stream-error-after-two", Client::serverStreamErrorAfterTwo);
        CASES.put("server-stream-error-at-once", Client::serverStreamErrorAtOnce);
        CASES.put("bidi-ping-pong", Client::bidiPingPong);
        CASES.put("bidi-error-midway", Client::bidiErrorMidway);
        CASES.put("status-codes", Client::statusCodes);
        CASES.put("status-messages", Client::statusMessages);
        CASES.put("status-details", Client::statusDetails);
        CASES.put("deadline-of-unary", Client::deadlineOfUnary);
        CASES.put("deadline-of-stream", Client::deadlineOfStream);
        CASES.put("deadline-met", Client::deadlineMet);
        CASES.put("cancel-unary", Client::cancelUnary);
        CASES.put("cancel-server-stream", Client::cancelServerStream);
        CASES.put("cancel-bidi", Client::cancelBidi);
        CASES.put("metadata-text", peer -> comesBack(peer, Map.of(
                "a", "one", "comma", "v,w", "symbols", "!#$%&'()*+-./:;<=>?@[]^_`{|}~")));
        CASES.put("metadata-binary", peer -> comesBack(peer, Map.of(
                "b", new byte[] {0, 1, -1, 62}, "one", new byte[] {-128})));
        CASES.put("metadata-empty-values", peer -> comesBack(peer, Map.of("none", "", "empty", new byte[0])));
        CASES.put("metadata-of-7-kib", peer -> comesBack(peer, Map.of("long", "v".repeat(2300))));
        CASES.put("metadata-non-ascii", Client::metadataNonAscii);
        CASES.put("unknown-method", Client::unknownMethod);
        CASES.put("unknown-service", Client::unknownService);
        CASES.put("health-check", Client::healthCheck);
        CASES.put("health-watch", Client::healthWatch);
        CASES.put("calls-1000-at-100", Client::calls1000At100);
        CASES.put("gzip-unary", Client::gzipUnary);
        CASES.put("gzip-stream", Client::gzipStream);
        CASES.put("server-restart", Client::serverRestart);
    }

    private static String unary(Peer peer) {
        SayRequest request = SayRequest.newBuilder().setText("hello").setPayload(zeros(3)).setSequenceId(-7).build();
        SayReply reply = peer.echo.say(request);
        same(SayReply.newBuilder().setText("echo:hello").setPayload(zeros(3)).setSequenceId(-7).build(), reply);
        return null;
    }

    private static String messageOf0Bytes(Peer peer) {
        same("echo:", peer.echo.say(SayRequest.getDefaultInstance()).getText());
        same(SayReply.getDefaultInstance(), peer.echo.fail(FailRequest.getDefaultInstance()));
        return null;
    }

    private static String requestOverLimit(Peer peer) {
        SayRequest request = SayRequest.newBuilder().setPayload(zeros(OVER_LIMIT)).setReplySize(1).build();
        Echo echo = peer.reference(Echo.class, Echo.SERVICE_NAME, 3000);
        int code = ended(() -> echo.say(request)).code.code;
        // 13 is a write that failed because the answer had ended the stream, 4 a wait for the answer that was missed.
        check(code == 8 || code == 4 || code == 13, "want code 8, 4 or 13, got " + code);
        peer.serves();
        return "dubbo-java's clients may miss an answer that comes before their request has left";
    }

    private static String replyOverLimit(Peer peer) {
        SayRequest request = SayRequest.newBuilder().setReplySize(OVER_LIMIT).build();
        same(OVER_LIMIT, peer.echo.say(request).getPayload().size());
        return "dubbo-java's clients have no limit";
    }

    private static CollectReply collect(Peer peer, List<SayRequest> requests) throws Exception {
        Sink<CollectReply> reply = new Sink<>();
        StreamObserver<SayRequest> call = peer.echo.collect(reply);
        requests.forEach(call::onNext);
        call.onCompleted();
        return reply.next();
    }

    private static String clientStream(Peer peer) throws Exception {
        SayRequest.Builder request = SayRequest.newBuilder().setPayload(zeros(2));
        CollectReply reply = collect(peer, List.of(
                request.setText("a").build(), request.setText("b").build(), request.setText("c").build()));
        same("3 6 a,b,c", reply.getCount() + " " + reply.getPayloadBytes() + " " + reply.getTexts());
        return null;
    }

    private static String clientStreamOfNone(Peer peer) throws Exception {
        Sink<CollectReply> reply = new Sink<>();
        peer.echo.collect(reply).onCompleted();
        check(reply.isSilent(1000), "the call ended after all");
        return "dubbo-java's clients send nothing for a stream without messages, which never ends";
    }

    private static String clientStreamOf1000(Peer peer) throws Exception {
        CollectReply reply = collect(peer, java.util.Collections.nCopies(
                1000, SayRequest.newBuilder().setPayload(zeros(1000)).build()));
        same("1000 1000000", reply.getCount() + " " + reply.getPayloadBytes());
        return null;
    }

    private static String serverStream(Peer peer) throws Exception {
        Sink<SayReply> replies = peer.expand(ExpandRequest.newBuilder().setCount(3).setSize(4));
        for (int i = 0; i < 3; i++) {
            SayReply want = SayReply.newBuilder().setText("expand:" + i).setSequenceId(i).setPayload(zeros(4)).build();
            same(want, replies.next());
        }
        return none(replies);
    }

    private static String none(Sink<SayReply> replies) throws Exception {
        same(null, replies.next());
        return null;
    }

    private static String serverStreamOf1000(Peer peer) throws Exception {
        Sink<SayReply> replies = peer.expand(ExpandRequest.newBuilder().setCount(1000).setSize(1000));
        for (long i = 0; i < 1000; i++) {
            same(i, replies.next().getSequenceId());
        }
        return none(replies);
    }

    private static String serverStreamErrorAfterTwo(Peer peer) throws Exception {
        Sink<SayReply> replies = peer.expand(
                ExpandRequest.newBuilder().setCount(2).setEndCode(5).setEndMessage("gone"));
        replies.next();
        replies.next();
        fails(5, "gone", replies::next);
        return null;
    }

    private static String serverStreamErrorAtOnce(Peer peer) {
        fails(7, "no", peer.expand(ExpandRequest.newBuilder().setEndCode(7).setEndMessage("no"))::next);
        return null;
    }

    private static void exchange(StreamObserver<SayRequest> call, Sink<SayReply> replies, String text)
            throws Exception {
        call.onNext(text(text));
        same("echo:" + text, replies.next().getText());
    }

    private static String bidiPingPong(Peer peer) throws Exception {
        Sink<SayReply> replies = new Sink<>();
        StreamObserver<SayRequest> call = peer.echo.chat(replies);
        for (int i = 0; i < 50; i++) {
            exchange(call, replies, "" + i);
        }
        call.onCompleted();
        return none(replies);
    }

    private static String bidiErrorMidway(Peer peer) throws Exception {
        Sink<SayReply> replies = new Sink<>();
        StreamObserver<SayRequest> call = peer.echo.chat(replies);
        exchange(call, replies, "ok");
        call.onNext(text("fail:enough"));
        fails(9, "enough", replies::next);
        return null;
    }

    private static String statusCodes(Peer peer) {
        for (int code = 1; code <= 16; code++) {
            peer.fail(code, "as asked", "as asked");
        }
        return null;
    }

    private static String statusMessages(Peer peer) {
        peer.fail(5, "", "");
        peer.fail(5, "100% a+b & c=d %zz %41", "100% a b & c=d %zz %41");
        peer.fail(5, "na\u00efve \u4e2d\u6587 \ud83d\ude80", "na\u00efve \u4e2d\u6587 \ud83d\ude80");
        peer.fail(5, "line1\nline2\ttab\r\nend", "line1\nline2\ttab\r\nend");
        return "dubbo-java's clients read a + in a message as a blank";
    }

    private static String statusDetails(Peer peer) {
        FailRequest.Builder request = FailRequest.newBuilder().setCode(9).setMessage("with details");
        for (int number = 1; number <= 2; number++) {
            request.addDetails(Any.pack(FailDetail.newBuilder().setReason("reason").setNumber(number).build()));
        }
        fails(9, "with details", () -> peer.echo.fail(request.build()));
        return "dubbo-java's clients show no details";
    }

    private static String deadlineOfUnary(Peer peer) {
        long start = System.nanoTime();
        fails(4, null, () -> peer.hasty.sleep(sleep(5000)));
        long took = (System.nanoTime() - start) / 1_000_000;
        check(took > 250 && took < 2000, "ended after " + took + " ms");
        peer.serves();
        return null;
    }

    private static String deadlineOfStream(Peer peer) throws Exception {
        Sink<SayReply> replies = new Sink<>();
        peer.hasty.expand(ExpandRequest.newBuilder().setCount(8).setIntervalMs(100).build(), replies);
        for (int i = 0; i < 8; i++) {
            replies.next();
        }
        none(replies);
        return "dubbo-java's streams have no deadline";
    }

    private static String deadlineMet(Peer peer) {
        same("slept", peer.echo.sleep(sleep(50)).getText());
        return null;
    }

    private static String cancelUnary(Peer peer) throws Exception {
        CompletableFuture<SayReply> call = peer.echo.sleepAsync(sleep(5000));
        Thread.sleep(200);
        check(call.cancel(true), "the future can be cancelled");
        peer.serves();
        return "dubbo-java's clients do not tell a server that a unary call was given up";
    }

    private static String cancelServerStream(Peer peer) throws Exception {
        Sink<SayReply> replies = peer.expand(
                ExpandRequest.newBuilder().setCount(1000).setSize(10_000).setIntervalMs(1));
        replies.next();
        replies.cancel(new IllegalStateException("enough"));
        peer.serves();
        return null;
    }

    private static String cancelBidi(Peer peer) throws Exception {
        Sink<SayReply> replies = new Sink<>();
        StreamObserver<SayRequest> call = peer.echo.chat(replies);
        exchange(call, replies, "one");
        call.onError(new IllegalStateException("enough"));
        peer.serves();
        return null;
    }

    /** Each value is seen by the handler and returns as an attachment, of which there is one a key. */
    private static String comesBack(Peer peer, Map<String, Object> values) {
        values.forEach((name, value) -> RpcContext.getClientAttachment().setObjectAttachment("x-echo-" + name, value));
        MetaReply reply = peer.echo.meta(MetaRequest.getDefaultInstance());
        Map<String, Object> back = RpcContext.getClientResponseContext().getObjectAttachments();
        values.forEach((name, value) -> {
            boolean binary = value instanceof byte[];
            String key = "x-echo-" + name + (binary ? "-bin" : "");
            var entry = reply.getSeenList().stream().filter(e -> e.getKey().equals(key)).findFirst().orElseThrow();
            String seen = binary ? hex(entry.getBinValues(0).toByteArray()) : entry.getValues(0);
            same(shown(value), seen);
            same(shown(value), shown(back.get("x-trail-" + name)));
            same(null, back.get("x-head-" + name));
        });
        return "dubbo-java's attachments have one value a key, and come back from trailers only";
    }

    private static String shown(Object value) {
        return value instanceof byte[] bytes ? hex(bytes) : String.valueOf(value);
    }

    private static String hex(byte[] bytes) {
        return Arrays.toString(bytes);
    }

    private static String metadataNonAscii(Peer peer) {
        RpcContext.getClientAttachment().setAttachment("x-echo-latin", "na\u00efve").setAttachment("x-echo-han", "\u4e2d");
        peer.echo.meta(MetaRequest.getDefaultInstance());
        Map<String, Object> back = RpcContext.getClientResponseContext().getObjectAttachments();
        same("na\u00efve ?", back.get("x-trail-latin") + " " + back.get("x-trail-han"));
        return "dubbo-java's clients send Latin-1, and ? for what is not in it";
    }

    /** A service as dubbo-java has it without IDL: what it sends is never looked at. */
    interface NoSuch {
        String method();
    }

    private static String unknownMethod(Peer peer) {
        NoSuch noSuch = peer.reference(NoSuch.class, "trirpc.test.v1.Echo", Peer.OK_MILLIS);
        fails(12, null, noSuch::method);
        return null;
    }

    private static String unknownService(Peer peer) {
        NoSuch noSuch = peer.reference(NoSuch.class, "no.such.Service", Peer.OK_MILLIS);
        fails(12, null, noSuch::method);
        return null;
    }

    private static HealthCheckRequest health(String service) {
        return HealthCheckRequest.newBuilder().setService(service).build();
    }

    private static String healthCheck(Peer peer) {
        Health health = peer.reference(Health.class, Health.SERVICE_NAME, Peer.OK_MILLIS);
        same(ServingStatus.SERVING, health.check(health("")).getStatus());
        same(ServingStatus.SERVING, health.check(health("trirpc.test.v1.Echo")).getStatus());
        fails(5, null, () -> health.check(health("nobody")));
        return null;
    }

    private static String healthWatch(Peer peer) throws Exception {
        Sink<HealthCheckResponse> replies = new Sink<>();
        peer.reference(Health.class, Health.SERVICE_NAME, Peer.OK_MILLIS).watch(health("trirpc.test.v1.Echo"), replies);
        same(ServingStatus.SERVING, replies.next().getStatus());
        replies.cancel(new IllegalStateException("enough"));
        return null;
    }

    private static String calls1000At100(Peer peer) throws Exception {
        ExecutorService workers = Executors.newFixedThreadPool(100);
        try {
            var calls = new java.util.ArrayList<java.util.concurrent.Future<String>>();
            for (int i = 0; i < 1000; i++) {
                SayRequest request = text("" + i).toBuilder().setPayload(zeros(128)).build();
                calls.add(workers.submit(() -> peer.echo.say(request).getText()));
            }
            for (int i = 0; i < 1000; i++) {
                same("echo:" + i, calls.get(i).get());
            }
        } finally {
            workers.shutdown();
        }
        return null;
    }

    /** Asks whoever runs this for something, and waits for a line on standard input. */
    private static void ask(String what) throws Exception {
        System.out.println(what);
        int octet;
        do {
            octet = System.in.read();
            check(octet >= 0, "nobody answered `" + what + "` on standard input");
        } while (octet != '\n');
    }

    /** A payload of zeros each way; the run measures that few bytes pass. */
    private static String gzipUnary(Peer peer) throws Exception {
        ask("measure");
        SayRequest request = SayRequest.newBuilder().setPayload(zeros(1 << 20)).build();
        same(request.getPayload(), peer.echo.say(request).getPayload());
        return null;
    }

    private static String gzipStream(Peer peer) throws Exception {
        ask("measure");
        Sink<SayReply> replies = new Sink<>();
        StreamObserver<SayRequest> call = peer.echo.chat(replies);
        for (int size : new int[] {256 << 10, 0, 1, 256 << 10}) {
            call.onNext(SayRequest.newBuilder().setPayload(zeros(size)).build());
            same(size, replies.next().getPayload().size());
        }
        call.onCompleted();
        return none(replies);
    }

    /** Whoever runs this kills the server and starts another. */
    private static String serverRestart(Peer peer) throws Exception {
        peer.serves();
        ask("restart");
        while (true) {
            try {
                peer.echo.say(text("again"));
                break;
            } catch (Exception failure) {
                check(status(failure) != null && status(failure).code.code == 14, "want code 14, got " + failure);
                Thread.sleep(20);
            }
        }
        peer.serves();
        return null;
    }

    /** dubbo-java compresses by its environment: another process runs the cases for which that must say so. */
    private static void compressed(String[] args) throws Exception {
        List<String> command = new java.util.ArrayList<>(List.of(
                System.getProperty("java.home") + "/bin/java", "-cp", System.getProperty("java.class.path")));
        command.add(Client.class.getName());
        command.addAll(Arrays.asList(args));
        command.addAll(List.of("--only", "gzip-"));
        ProcessBuilder process = new ProcessBuilder(command).inheritIO();
        process.environment().put(COMPRESSOR, "gzip");
        process.start().waitFor();
    }

    public static void main(String[] args) throws Exception {
        // Otherwise it dials another address of the machine than the loopback it was given.
        System.setProperty("dubbo.network.interface.ignored", ".*");
        Arguments arguments = new Arguments(args);
        String only = arguments.get("only", "");
        boolean isCompressed = System.getenv(COMPRESSOR) != null;
        Peer peer = new Peer(arguments.get("addr", null));
        int failed = 0;
        for (Map.Entry<String, Case> entry : CASES.entrySet()) {
            String name = entry.getKey();
            if (!name.startsWith(only)) {
                continue;
            }
            if (name.startsWith("gzip-") && !isCompressed) {
                if (name.equals("gzip-unary")) {
                    compressed(args);
                }
                continue;
            }
            try {
                String note = entry.getValue().run(peer);
                System.out.println("PASS " + name + (note == null ? "" : " (" + note + ")"));
            } catch (Throwable failure) {
                failed++;
                String why = String.valueOf(failure).replaceAll("\\s+", " ");
                System.out.println("FAIL " + name + ": " + why.substring(0, Math.min(why.length(), 400)));
                if (System.getenv("TRACE") != null) {
                    failure.printStackTrace();
                }
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
