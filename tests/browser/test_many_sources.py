"""The page with the most sources there can be."""

from browser.looking import LIMIT_S, staged_page
from browser.other_sources import OtherSources
from rig.running import until


def test_eight_sources_stand_in_two_rows() -> None:
    many = OtherSources(5, lookups=7)
    with staged_page(3, content=many) as (_stage, page, _trouble):
        boxes = [page.locator(f"section[data-area={name}]").bounding_box() for name in many.names]
        tops = [box["y"] for box in boxes if box]
        assert tops == [tops[0]] * 4 + [tops[4]] * 4
        assert tops[4] > tops[0]
        assert all(box and box["width"] > 200 and box["height"] > 100 for box in boxes)
        page.focus(f"[data-between='{many.names[0]} {many.names[1]}']")
        page.keyboard.press("ArrowRight")
        wider = page.locator(f"section[data-area={many.names[4]}]")
        before = boxes[4]
        assert before
        until(
            lambda: (wider.bounding_box() or before)["width"] > before["width"],
            "both rows have these columns",
            LIMIT_S,
        )
