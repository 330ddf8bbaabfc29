import java.io.*;
import java.util.Arrays;
class BoostrankProof {
    public static void main(String[] none) {
        new BufferedReader(new InputStreamReader(System.in)).lines().forEach(line -> System.out.println(
            MODEL.score(Arrays.stream(line.split(" ")).mapToDouble(Double::parseDouble).toArray())));
    }
}
