package trirpc.test.peer;

import com.google.protobuf.ByteString;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.StatusRpcException;
import org.apache.dubbo.rpc.TriRpcStatus;
import org.apache.dubbo.rpc.protocol.tri.CancelableStreamObserver;
import trirpc.test.v1.Echo;
import trirpc.test.v1.ExpandRequest;
import trirpc.test.v1.FailRequest;
import trirpc.test.v1.SayReply;
import trirpc.test.v1.SayRequest;
import trirpc.test.v1.SleepRequest;

/** The server under test, and what cases are made of. */
final class Peer {
    static final int OK_MILLIS = 20_000;
    static final int OVER_LIMIT = 5 << 20;

    final String address;
    final Echo echo;
    /** The same with a timeout of 300 ms; dubbo-java has timeouts by reference. */
    final Echo hasty;

    Peer(String address) {
        this.address = address;
        ApplicationConfig app = new ApplicationConfig("java-peer-client");
        app.setQosEnable(false);
        DubboBootstrap.getInstance().application(app).registry(new RegistryConfig("N/A"));
        echo = reference(Echo.class, Echo.SERVICE_NAME, OK_MILLIS);
        hasty = reference(Echo.class, Echo.SERVICE_NAME, 300);
    }

    <T> T reference(Class<T> type, String path, int timeout) {
        ReferenceConfig<T> reference = new ReferenceConfig<>();
        reference.setInterface(type);
        reference.setUrl("tri://" + address + "/" + path);
        reference.setProtocol("tri");
        reference.setTimeout(timeout);
        reference.setRetries(0);
        reference.setCheck(false);
        DubboBootstrap.getInstance().reference(reference).start();
        return reference.get();
    }

    static SayRequest text(String text) {
        return SayRequest.newBuilder().setText(text).build();
    }

    static ByteString zeros(int size) {
        return ByteString.copyFrom(new byte[size]);
    }

    /** The connection still works. */
    void serves() {
        same("echo:after", echo.say(text("after")).getText());
    }

    /** A payload of {@code size} bytes comes back unchanged. */
    String payload(int size) {
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) {
            bytes[i] = (byte) (i % 251 * 31);
        }
        SayRequest request = SayRequest.newBuilder().setPayload(ByteString.copyFrom(bytes)).build();
        check(Arrays.equals(bytes, echo.say(request).getPayload().toByteArray()), "the payload came back changed");
        return null;
    }

    void fail(int code, String message, String shown) {
        FailRequest request = FailRequest.newBuilder().setCode(code).setMessage(message).build();
        fails(code, shown, () -> echo.fail(request));
    }

    static SleepRequest sleep(int millis) {
        return SleepRequest.newBuilder().setMillis(millis).build();
    }

    Sink<SayReply> expand(ExpandRequest.Builder request) {
        Sink<SayReply> sink = new Sink<>();
        echo.expand(request.build(), sink);
        return sink;
    }

    interface Call {
        Object run() throws Exception;
    }

    /** The call must end with this code, and with this message unless that is null. */
    static void fails(int code, String message, Call call) {
        TriRpcStatus status = ended(call);
        check(status.code.code == code, "want code " + code + ", got " + status.code.code + " " + status.description);
        if (message != null) {
            same(message, Objects.requireNonNullElse(status.description, ""));
        }
    }

    /** How the call failed. */
    static TriRpcStatus ended(Call call) {
        try {
            Object got = call.run();
            throw new AssertionError("a reply of " + String.valueOf(got).length() + " letters");
        } catch (Exception failure) {
            TriRpcStatus status = status(failure);
            check(status != null, "no status, but " + failure);
            return status;
        }
    }

    /** dubbo-java has a status, or for its own timeouts only an exception that says so. */
    static TriRpcStatus status(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof StatusRpcException status) {
                return status.getStatus();
            }
            if (cause instanceof RpcException rpc && rpc.isTimeout()) {
                return TriRpcStatus.DEADLINE_EXCEEDED.withDescription(rpc.getMessage());
            }
            // The latter is its word for a connection that it has not made again yet.
            if (cause instanceof RpcException rpc && (rpc.isNetwork() || rpc.isNoInvokerAvailableAfterFilter())) {
                return TriRpcStatus.UNAVAILABLE.withDescription(rpc.getMessage());
            }
        }
        return null;
    }

    static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static void same(Object want, Object got) {
        check(Objects.equals(want, got), "want " + want + ", got " + got);
    }

    /** The replies of a stream, and how it ended. */
    static final class Sink<T> extends CancelableStreamObserver<T> {
        private static final Object END = new Object();
        private final BlockingQueue<Object> events = new LinkedBlockingQueue<>();

        @Override
        public void onNext(T value) {
            events.add(value);
        }

        @Override
        public void onError(Throwable failure) {
            events.add(failure);
        }

        @Override
        public void onCompleted() {
            events.add(END);
        }

        /** The next reply, or null at the end. */
        @SuppressWarnings("unchecked")
        T next() throws Exception {
            Object event = events.poll(OK_MILLIS, TimeUnit.MILLISECONDS);
            check(event != null, "nothing came");
            if (event instanceof Throwable failure) {
                throw new Exception(failure);
            }
            return event == END ? null : (T) event;
        }

        /** Whether anything comes within this time. */
        boolean isSilent(int millis) throws Exception {
            return events.poll(millis, TimeUnit.MILLISECONDS) == null;
        }
    }
}
