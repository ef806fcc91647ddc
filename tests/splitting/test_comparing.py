from pathlib import Path

import numpy as np
import onnx
import pytest

from forerun.errors import InputError
from forerun.splitting.comparing import Whole, difference, random_samples, same_class


def test_a_difference_is_of_the_largest_number() -> None:
    ours = {"a": np.array([[1.0, 2.0]], np.float32), "b": np.array([[8.0]], np.float32)}
    theirs = {"a": np.array([[1.0, 4.0]], np.float32), "b": np.array([[-10.0]], np.float32)}
    assert difference(theirs, theirs) == 0
    assert difference(ours, theirs) == pytest.approx(1.8)
    assert difference({"a": ours["a"]}, {"a": theirs["a"]}) == pytest.approx(0.5)
    assert difference({"a": ours["a"]}, {"a": 0 * theirs["a"]}) == 2.0  # of nothing, as it is


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float16"])
def test_a_difference_may_be_of_any_type(kind: str) -> None:
    ours, theirs = ({"a": np.array(one, kind)} for one in ([0, 1, 0], [1, 0, 0]))
    assert difference(ours, theirs) == 1
    assert difference(ours, ours) == 0


def test_classes_are_the_same_where_every_output_says_so() -> None:
    left, right = np.array([[3.0, 1.0]], np.float32), np.array([[1.0, 3.0]], np.float32)
    assert same_class({"a": left, "b": right}, {"a": 2 * left, "b": right})
    assert not same_class({"a": left, "b": left}, {"a": left, "b": right})


def test_a_class_may_be_a_whole_number() -> None:
    one, other = {"a": np.array([3])}, {"a": np.array([4])}
    assert same_class(one, {"a": np.array([3])})
    assert not same_class(one, other)


def test_random_inputs_are_the_same_for_one_seed() -> None:
    one, two, other = (list(random_samples({"x": [1, 3, 4, 4]}, 3, seed)) for seed in (0, 0, 1))
    assert one[2]["x"].shape == (1, 3, 4, 4)
    np.testing.assert_array_equal(one[2]["x"], two[2]["x"])
    assert not np.array_equal(one[0]["x"], other[0]["x"])


def test_the_whole_network_answers(cnn: Path) -> None:
    whole, sample = Whole(cnn), np.ones((1, 1, 8, 8), np.float32)
    assert whole.run(sample)["logits"].shape == (1, 10)
    np.testing.assert_array_equal(
        whole.run(sample)["logits"], whole.run({"image": sample})["logits"]
    )


def test_a_network_of_a_fixed_batch_answers_for_one_sample(cnn: Path, tmp_path: Path) -> None:
    """As its parts do once it is cut."""
    model = onnx.load(cnn)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(model, tmp_path / "four.onnx")
    sample = np.ones((1, 1, 8, 8), np.float32)
    answer = Whole(tmp_path / "four.onnx").run(sample)["logits"]
    np.testing.assert_array_equal(answer, Whole(cnn).run(sample)["logits"])


def test_weights_beside_the_file_are_read(cnn: Path, tmp_path: Path) -> None:
    place = tmp_path / "beside"
    place.mkdir()
    model = onnx.load(cnn)
    onnx.save_model(
        model, place / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0
    )
    assert (place / "net.bin").stat().st_size > (place / "net.onnx").stat().st_size
    sample = np.ones((1, 1, 8, 8), np.float32)
    found, right = (Whole(path).run(sample)["logits"] for path in (place / "net.onnx", cnn))
    np.testing.assert_array_equal(found, right)


def test_tensors_inside_are_answered_for(cnn: Path) -> None:
    whole = Whole(cnn, ["f", "b", "logits", "no such tensor"])
    assert whole.tensors == ["f", "b", "logits"]
    found = whole.run(np.ones((1, 1, 8, 8), np.float32))
    assert list(found) == ["logits", "f", "b"]
    assert found["b"].shape == (1, 6, 8, 8)


def test_what_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_text("Dear diary")
    with pytest.raises(InputError, match=r"net\.onnx: found .*, expected a network that onnx"):
        Whole(tmp_path / "net.onnx")
    with pytest.raises(FileNotFoundError):
        Whole(tmp_path / "none.onnx")
